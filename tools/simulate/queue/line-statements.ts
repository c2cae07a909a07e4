import type { Face } from '../../../libs/keys-core/src/kernel/resource.ts';
import { keyText } from '../../../libs/keys-core/src/grants/sql/requests.ts';
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
      text: 'as "hasLeft"',
      run(values) {
        const [ids, principals, keys, answers] = lists(values);
        return ids.flatMap((ticketId, at) => {
          const key = keyText({ principal: at_(principals, at), idempotencyKey: at_(keys, at) });
          const request = requests.get(key);
          if (request === undefined || !tickets.delete(ticketId)) return [];
          request.answer ??= JSON.parse(at_(answers, at));
          return [{ ticketId, hasLeft: true }];
        });
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
      text: 'as "isNoted"',
      run(values) {
        const [principals, keys] = lists(values);
        return keys.flatMap((idempotencyKey, at) => {
          const askedBy = at_(principals, at);
          const request = requests.get(keyText({ principal: askedBy, idempotencyKey }));
          if (request === undefined) return [];
          const { answer, resource, fingerprint, leaseId } = request;
          const grant = leaseId === null ? undefined : leases.past(leaseId);
          const isNoted = grant !== undefined && answer === null;
          request.isRepeated ||= isNoted;
          const of = { askedBy, idempotencyKey, ticketId: leaseId };
          const record = { ...of, answer, resource, fingerprint, isNoted };
          // The short ladder of an unconfirmed grant is sent as it is: it stands for itself.
          const found =
            grant === undefined
              ? { leaseId: null }
              : { ...grant, ...grant.ladder, isConfirmed: true };
          return [{ ...record, ...found }];
        });
      },
    },
  ];
}

function ofGivingUp(database: LineDatabase): Statement[] {
  const { requests, tickets, leases, givenUp } = database;
  return [
    {
      text: 'insert into lease_request (principal, idempotency_key, answer) select',
      run(values) {
        const answer = values.find((value) => typeof value === 'string');
        const [principals, keys] = lists(values);
        return keys.flatMap((idempotencyKey, at) => {
          const principal = at_(principals, at);
          const key = keyText({ principal, idempotencyKey });
          if (requests.has(key)) return [];
          givenUp.add(key);
          const none = { leaseId: null, resource: null, fingerprint: null, isRepeated: false };
          requests.set(key, { ...none, answer: JSON.parse(answer ?? 'null') });
          return [{ principal, idempotencyKey }];
        });
      },
    },
    {
      text: 'as "isRepeated"',
      run(values) {
        const [principals, keys] = lists(values);
        return keys.flatMap((idempotencyKey, at) => {
          const principal = at_(principals, at);
          const rowAt = keyText({ principal, idempotencyKey });
          const request = requests.get(rowAt);
          return request === undefined ? [] : [{ ...request, principal, idempotencyKey, rowAt }];
        });
      },
    },
    {
      text: 'as "isTaken"',
      run: ([ids]) =>
        (ids as string[]).flatMap((ticketId) => {
          const ticket = tickets.get(ticketId);
          tickets.delete(ticketId);
          return ticket === undefined ? [] : [{ ...ticket, isTaken: true }];
        }),
    },
    {
      text: 'as "isOurs"',
      run: ([ids]) =>
        (ids as string[]).flatMap((leaseId) => {
          const grant = leases.past(leaseId);
          if (grant === undefined || leases.newestId(grant) !== leaseId) return [];
          return [{ leaseId, fencingToken: grant.fencingToken, isOurs: true }];
        }),
    },
    {
      text: 'as "wasOpen"',
      run([answer, rows]) {
        return (rows as string[]).flatMap((rowAt) => {
          const request = requests.get(rowAt);
          if (request?.answer !== null) return [];
          request.answer = JSON.parse(answer as string);
          givenUp.add(rowAt);
          const { leaseId } = request;
          return [{ leaseId, wasOpen: leaseId === null || leases.past(leaseId) === undefined }];
        });
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
        return ids.flatMap((leaseId, at) => {
          const grant = leases.past(leaseId);
          if (grant === undefined || leases.newestId(grant) !== leaseId) return [];
          const of = { leaseId, fencingToken: at_(tokens, at), principal: at_(principals, at) };
          const outcome = leases.release('lease', of);
          const nextTicketId = outcome === 'released' ? database.nextTicketId(grant) : null;
          return [{ ...grant, outcome, tag: '', heldMs: 0, nextTicketId }];
        });
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
