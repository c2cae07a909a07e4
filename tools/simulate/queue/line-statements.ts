import type { Face } from '../../../libs/keys-core/src/kernel/resource/resource.ts';
import { keyText } from '../../../libs/keys-core/src/grants/idempotency/sql/requests.ts';
import { Statements, type Statement } from '../database/statements.ts';
import type { World } from '../engine/world.ts';
import type { LineDatabase } from './line-database.ts';

/** The statements that lines, records and giving up send, on the model. */
export function lineStatements(world: World, database: LineDatabase): Statements {
  const own = [...ofLines(database), ...ofRecords(database), ...ofGivingUp(database)];
  return new Statements(world, own);
}

function ofLines(database: LineDatabase): Statement[] {
  const { tickets, requests, leases } = database;
  return [
    {
      text: 'insert into lease_waiter as w (face, namespace, name, ticket_id, waiter, principal, valid_until) select',
      run(values) {
        const [faces, namespaces, names, ids, waiters, principals, keys, prints] = lists(values);
        return ids.flatMap((ticketId, at) => {
          const key = keyText({ principal: at_(principals, at), idempotencyKey: at_(keys, at) });
          const [face, namespace, name] = [
            at_(faces, at) as Face,
            at_(namespaces, at),
            at_(names, at),
          ];
          const resource = [face, namespace, name].join('\u001f');
          const known = requests.get(key);
          if (known !== undefined) {
            const isSame = known.leaseId === ticketId && known.answer === null;
            if (!isSame || known.resource !== resource) return [];
          } else {
            const fingerprint = prints[at] ?? null;
            const row = {
              leaseId: ticketId,
              answer: null,
              resource,
              fingerprint,
              isRepeated: false,
            };
            requests.set(key, row);
          }
          if (leases.past(ticketId) !== undefined) return [];
          const of = { ticketId, waiter: at_(waiters, at) };
          const { number } = database.join({ face, namespace, name }, of);
          return [{ ticketId, number, asOf: leases.now() }];
        });
      },
    },
    {
      text: 'prolonged as (',
      run: ([ids]) =>
        (ids as string[]).flatMap((ticketId) => (database.prolong(ticketId) ? [] : [{ ticketId }])),
    },
    {
      text: 'select true as gone from gone',
      run(values) {
        const [principal, idempotencyKey, ticketId, answer] = values as string[];
        const request = requests.get(keyText({ principal, idempotencyKey } as never));
        if (request === undefined || !tickets.delete(ticketId ?? '')) return [];
        request.answer ??= JSON.parse(answer ?? 'null');
        return [{ gone: true }];
      },
    },
    {
      text: 'where w.ticket_id = ?::uuid and exists (',
      run([ticketId]) {
        const id = ticketId as string;
        return leases.past(id) !== undefined && tickets.delete(id) ? [{ ticketId: id }] : [];
      },
    },
  ];
}

function ofRecords({ requests, leases }: LineDatabase): Statement[] {
  return [
    {
      text: 'select r.principal, r.idempotency_key, r.answer::jsonb, r.resource, r.fingerprint',
      run(values) {
        const [principals, keys, answers, resources, prints] = lists(values);
        return keys.flatMap((idempotencyKey, at) => {
          const principal = at_(principals, at);
          const key = keyText({ principal, idempotencyKey });
          if (requests.has(key)) return [];
          const answer: unknown = JSON.parse(at_(answers, at));
          const row = { leaseId: null, answer, resource: at_(resources, at), isRepeated: false };
          requests.set(key, { ...row, fingerprint: at_(prints, at) });
          return [{ principal, idempotencyKey }];
        });
      },
    },
    {
      text: 'with past as materialized (',
      run([principal, idempotencyKey]) {
        const request = requests.get(keyText({ principal, idempotencyKey } as never));
        if (request === undefined) return [];
        const { answer, resource, fingerprint, leaseId } = request;
        const grant = leaseId === null ? undefined : leases.past(leaseId);
        const isNoted = grant !== undefined && answer === null;
        request.isRepeated ||= isNoted;
        const record = { ticketId: leaseId, answer, resource, fingerprint, isNoted };
        if (grant === undefined) return [{ ...record, leaseId: null }];
        const { ladder, ...rest } = grant;
        // The short ladder of an unconfirmed grant is sent as it is: it stands for itself.
        return [{ ...record, ...rest, ...ladder, isConfirmed: true }];
      },
    },
  ];
}

function ofGivingUp(database: LineDatabase): Statement[] {
  const { requests, tickets, leases, givenUp } = database;
  return [
    {
      text: 'insert into lease_request (principal, idempotency_key, answer) values',
      run([principal, idempotencyKey, answer]) {
        const key = keyText({ principal, idempotencyKey } as never);
        if (requests.has(key)) return [];
        givenUp.add(key);
        const none = { leaseId: null, resource: null, fingerprint: null, isRepeated: false };
        requests.set(key, { ...none, answer: JSON.parse(answer as string) });
        return [{ principal }];
      },
    },
    {
      text: 'grant_repeated_at is not null as "isRepeated"',
      run([principal, idempotencyKey]) {
        const request = requests.get(keyText({ principal, idempotencyKey } as never));
        return request === undefined ? [] : [request];
      },
    },
    {
      text: 'delete from lease_waiter where ticket_id = ?::uuid returning face',
      run([ticketId]) {
        const ticket = tickets.get(ticketId as string);
        tickets.delete(ticketId as string);
        return ticket === undefined ? [] : [ticket];
      },
    },
    {
      text: 'as "wasOpen"',
      run(values) {
        const [answer = 'null', principal, idempotencyKey, leaseId = ''] = values as string[];
        const key = keyText({ principal, idempotencyKey } as never);
        const request = requests.get(key);
        if (request?.answer !== null) return [];
        request.answer = JSON.parse(answer);
        givenUp.add(key);
        return [{ wasOpen: leases.past(leaseId) === undefined }];
      },
    },
    {
      text: 'select fencing_token::text as token from lease',
      run([leaseId]) {
        const grant = leases.past(leaseId as string);
        return grant === undefined ? [] : [{ token: grant.fencingToken }];
      },
    },
    ...ofReleasing(database),
  ];
}

function ofReleasing(database: LineDatabase): Statement[] {
  const { leases } = database;
  return [
    {
      text: 'as "nextTicketId" from judged j',
      run(values) {
        const [ids, tokens, principals] = lists(values);
        const [leaseId, fencingToken] = [at_(ids, 0), at_(tokens, 0)];
        const grant = leases.past(leaseId);
        if (grant === undefined || leases.newestId(grant) !== leaseId) return [];
        const principal = at_(principals, 0);
        const outcome = leases.release('lease', { leaseId, fencingToken, principal });
        const nextTicketId = outcome === 'released' ? database.nextTicketId(grant) : null;
        return [{ ...grant, outcome, tag: '', heldMs: 0, nextTicketId }];
      },
    },
    { text: "else coalesce(e.end, 'superseded')", run: () => [] },
    {
      text: "else 'current' end as end",
      run([ids]) {
        const [leaseId = ''] = ids as string[];
        return leases.past(leaseId) === undefined ? [] : [{ leaseId, end: 'expired' }];
      },
    },
  ];
}

function lists(
  values: readonly unknown[],
): [string[], string[], string[], string[], string[], string[], string[], string[]] {
  return values.filter((value) => Array.isArray(value)) as ReturnType<typeof lists>;
}

function at_(list: readonly string[], place: number): string {
  return list[place] ?? '';
}
