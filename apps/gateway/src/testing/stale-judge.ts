/**
 * Finds stale answers: those of a backend whose grant another one had followed before the question was sent. Backends
 * write their fencing token into each answer; the history of grants is that of the database, on the same machine.
 */
import type { Rooms } from './rooms.ts';

/** What came back to a client. */
export interface JudgedAnswer {
  readonly key: string;
  /** Of the backend that answered. */
  readonly token: string;
  /** When its question was sent, by the clock of the machine. */
  readonly sentAtMs: number;
}

interface Grant {
  readonly name: string;
  readonly token: string;
  readonly atMs: number;
}

export class StaleJudge {
  readonly answers: JudgedAnswer[] = [];

  note(answer: JudgedAnswer): void {
    this.answers.push(answer);
  }

  /** Every answer that is stale, or of a backend that never had the key. */
  async wrong(rooms: Rooms): Promise<readonly (JudgedAnswer & { readonly why: string })[]> {
    const grants = await grantsOf(rooms);
    return this.answers.flatMap((answer) => {
      const why = problemOf(answer, grants.get(answer.key) ?? []);
      return why === undefined ? [] : [{ ...answer, why }];
    });
  }
}

function problemOf(
  { token, sentAtMs }: JudgedAnswer,
  grants: readonly Grant[],
): string | undefined {
  const own = grants.findIndex((grant) => grant.token === token);
  if (own === -1) return 'its backend never had the key';
  const next = grants[own + 1];
  return next !== undefined && next.atMs < sentAtMs
    ? `${next.token} was granted ${String(sentAtMs - next.atMs)} ms before`
    : undefined;
}

/** By key, oldest first. */
async function grantsOf(rooms: Rooms): Promise<Map<string, Grant[]>> {
  const rows = await rooms.query<{ name: string; token: string; at: Date }>(
    `select name, fencing_token::text as token, min(at) as at from lease_event
     where face = 'key' and kind in ('granted', 'taken_over')
     group by name, fencing_token order by name, fencing_token`,
  );
  const byKey = new Map<string, Grant[]>();
  for (const { name, token, at } of rows) {
    const grants = byKey.get(name) ?? [];
    byKey.set(name, [...grants, { name, token, atMs: at.getTime() }]);
  }
  return byKey;
}
