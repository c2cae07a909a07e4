import type { CronConfig } from './config.ts';
import type { CronJob, Turn } from './schedule.ts';

const CENTS = 100;

/** Adds interest to an account, and tells somebody outside. */
export function interestJob({ pattern, replica, notifyUrl }: CronConfig): CronJob<number> {
  const name = 'interest';

  /** The receiver gets the same idempotency key when an instant is carried out again after a crash. */
  async function notify({ dueAt, signal }: Turn): Promise<void> {
    if (notifyUrl === undefined) return;
    const instant = dueAt.toISOString();
    const answer = await fetch(notifyUrl, {
      method: 'POST',
      signal,
      headers: { 'content-type': 'application/json', 'idempotency-key': `${name}/${instant}` },
      body: JSON.stringify({ job: name, dueAt: instant, replica, cents: CENTS }),
    });
    if (!answer.ok) throw new Error(`${notifyUrl} answered ${String(answer.status)}`);
  }

  return {
    name,
    pattern,
    async work(turn) {
      await notify(turn);
      return CENTS;
    },
    async save(tx, cents) {
      await tx.query(`update account set cents = cents + $1 where id = 'savings'`, [cents]);
    },
  };
}
