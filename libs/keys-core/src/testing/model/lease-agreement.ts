import { expect } from 'vitest';
import { phaseOf, PHASES, type LeaseRow } from '../../kernel/lease.ts';
import { resourceKey } from '../../kernel/resource.ts';
import { listKeys, type ResourceFilter } from '../../lists/sql/resource-list.ts';
import { readLeases } from '../../postgres/sql.ts';
import type { Kernel } from '../kernel-fixture.ts';
import type { LeaseModel, ModelGrant } from '../../kernel/lease-model.ts';

/** The kernel under test, and the clock of its database. */
export interface RealKernel {
  readonly kernel: Kernel;
  readonly setClock: (atMs: number) => Promise<void>;
  /** Every run has a namespace of its own, so that one database serves them all. */
  readonly namespace: string;
}

interface EventLine {
  readonly key: string;
  readonly line: string;
}

/**
 * Compares everything that the database keeps of this run with the model: each row, each event
 * (I13: one for each change, and no other), each callback that is owed.
 */
export async function expectAgreement(model: LeaseModel, real: RealKernel): Promise<void> {
  const sql = real.kernel.store.general;
  const resources = [
    ...new Map(model.grants.map(({ resource }) => [resourceKey(resource), resource])).values(),
  ];
  if (resources.length === 0) return;
  const rows = await readLeases(sql, resources);
  resources.forEach((resource, index) => {
    const expected = model.rows.get(resourceKey(resource));
    expect(rowSeen(rows[index])).toEqual(
      expected === undefined ? undefined : rowExpected(model, expected),
    );
  });
  const kept = await sql.$queryRaw<{ leaseId: string; metadata: unknown }[]>`
    select l.lease_id as "leaseId", l.metadata from lease l where l.namespace = ${real.namespace}`;
  expect(new Map(kept.map(({ leaseId, metadata }) => [leaseId, metadata]))).toEqual(
    new Map([...model.rows.values()].map(({ leaseId, metadata }) => [leaseId, metadata])),
  );
  const events = await sql.$queryRaw<EventLine[]>`
    select face || '/' || name as key, kind || ' ' || lease_id || ' ' || fencing_token as line
    from lease_event where namespace = ${real.namespace} order by id`;
  for (const resource of resources) {
    const written = events.filter(({ key }) => key === `${resource.face}/${resource.name}`);
    expect(written.map(({ line }) => line)).toEqual(model.events.get(resourceKey(resource)));
  }
}

function rowSeen(row: LeaseRow | undefined): unknown {
  if (row === undefined) return undefined;
  const { leaseId, fencingToken, holder, expiresAt, renewable, endReason, stopsBy } = row;
  return {
    leaseId,
    fencingToken,
    holder,
    expiresAt,
    renewable,
    endReason,
    stopsBy,
    phase: phaseOf(row, row.asOf),
  };
}

function rowExpected(model: LeaseModel, grant: ModelGrant): unknown {
  const { leaseId, token, holder, expiresAt, renewable, end, stopsBy } = grant;
  return {
    leaseId,
    fencingToken: String(token),
    holder,
    expiresAt,
    renewable,
    endReason: end,
    stopsBy,
    phase: model.phaseOf(grant),
  };
}

/** The phase that a list filters by is the phase that it shows, for every key of this run. */
export async function expectPhasesAgree(model: LeaseModel, real: RealKernel): Promise<void> {
  const sql = real.kernel.store.general;
  const filter: ResourceFilter = {
    namespace: real.namespace,
    includeChildren: false,
    namespaces: null,
  };
  const order = { by: 'name', direction: 'asc', after: null, limit: 100 } as const;
  for (const phase of PHASES) {
    const listed = await listKeys(sql, { ...filter, phase }, order);
    const expected = [...model.rows.values()]
      .filter((grant) => grant.resource.face === 'key' && model.phaseOf(grant) === phase)
      .map((grant) => grant.resource.name);
    expect(
      listed.map((row) => row.name),
      phase,
    ).toEqual(expected.sort());
    expect(listed.map((row) => phaseOf(row, row.asOf))).toEqual(listed.map(() => phase));
  }
}

/**
 * The invariants of the whole run, from its event log and its rows alone: I2 tokens grow in the
 * order of the events, I1 a grant begins only when the one before has its one end, and every
 * expired lease is owed one callback.
 */
export async function expectInvariants(model: LeaseModel, real: RealKernel): Promise<void> {
  const sql = real.kernel.store.general;
  const [broken] = await sql.$queryRaw<{ shrunk: number; unended: number; ends: number }[]>`
    with event as (
      select v.*, v.kind in ('granted', 'taken_over') as is_grant,
        v.kind in ('released', 'failed', 'expired')
          or (v.kind = 'revoked' and v.detail ->> 'mode' = 'force') as is_end
      from lease_event v where v.namespace = ${real.namespace}
    ),
    given as (
      select e.*,
        lag(e.fencing_token) over w as token_before, lag(e.lease_id) over w as lease_before
      from event e where e.is_grant
      window w as (partition by e.face, e.name order by e.id)
    )
    select
      (select count(*)::int from given where fencing_token <= token_before) as shrunk,
      (select count(*)::int from given g where g.lease_before is not null and not exists (
        select from event x where x.lease_id = g.lease_before and x.is_end and x.id < g.id
      )) as unended,
      (select coalesce(max(n), 0)::int from (
        select count(*) as n from event where is_end group by lease_id
      ) per_grant) as ends`;
  expect(broken?.shrunk, 'I2 tokens grow').toBe(0);
  expect(broken?.unended, 'I1 no grant before the end of the one before').toBe(0);
  expect(broken?.ends, 'I13 one end for each grant').toBeLessThanOrEqual(1);
  const owed = await sql.$queryRaw<{ leaseId: string }[]>`
    select lease_id::text as "leaseId" from lease_reap where namespace = ${real.namespace}`;
  expect(owed.map((row) => row.leaseId).sort()).toEqual([...model.owedCallbacks].sort());
}
