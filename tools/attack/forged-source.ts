import { setTimeout as sleep } from 'node:timers/promises';
import type { Attack } from './attack.ts';

/** From a range that nobody has. */
const FORGED = /^(?:203\.0\.113\.|2001:db8:)/u;
const EMAIL = 'administrator@example.com';
const PAUSE_MS = 20;
const AT_ONCE = 4;

/** Headers in which a proxy names the address of its caller. */
function forgedHeaders(nth: number): Record<string, string> {
  const address = `203.0.113.${String(nth % 256)}`;
  return {
    'x-forwarded-for': address,
    forwarded: `for=${address}`,
    'x-real-ip': address,
    'leasehold-caller': address,
    'leasehold-console-secret': 'a guess of thirty-two characters',
  };
}

/** A program on the controller's machine, such as a backend, names another source for each of its tries. */
export const forgedSource: Attack = {
  name: 'forged-source',
  what: 'sign-ins from the machine itself, each with another X-Forwarded-For',
  async carryOut(stage, attackMs) {
    const untilMs = performance.now() + attackMs;
    const refused: Record<string, number> = {};
    let tried = 0;
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        while (performance.now() < untilMs) {
          const response = await fetch(`${stage.url}/api/auth/sign-in/email`, {
            method: 'POST',
            headers: {
              ...forgedHeaders((tried += 1)),
              'content-type': 'application/json',
              origin: stage.consoleUrl,
            },
            body: JSON.stringify({ email: EMAIL, password: 'wrong' }),
          }).catch(() => undefined);
          await response?.arrayBuffer();
          const code = String(response?.status ?? 'no answer');
          refused[code] = (refused[code] ?? 0) + 1;
          await sleep(PAUSE_MS);
        }
      }),
    );
    const [counted, { items }] = await Promise.all([
      stage.query<{ source: string }>('select distinct source from sign_in_failure'),
      stage.api().audit.list.query({ limit: 500 }),
    ]);
    const forged = [...counted, ...items].filter(({ source }) => FORGED.test(source ?? ''));
    return { tried, refused, got: forged.map(({ source }) => `the source ${String(source)}`) };
  },
};
