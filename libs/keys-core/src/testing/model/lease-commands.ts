/**
 * The commands of the model-based test, in any order: each acts on the model and on the real kernel,
 * compares the two answers, and then everything that the database stores.
 */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { expect } from 'vitest';
import { KEY_LADDERS, deadlinesFrom, serviceLadder, type Ladder } from '../../kernel/ladder.ts';
import { FACES, type Resource } from '../../kernel/resource.ts';
import { deleteFreeRows } from '../../grants/sql/retention.ts';
import { updateHeld } from '../../grants/renewing.ts';
import { readLeasePages, reap } from '../../grants/sql/reap.ts';
import { remove } from './remove.ts';
import { revoke, setRenewable } from '../../grants/sql/revoke.ts';
import { expectAgreement, type RealKernel } from './lease-agreement.ts';
import { aRequest, TRUSTING_WATCH } from '../kernel-fixture.ts';
import type { LeaseModel, ModelGrant, ModelRef } from '../../kernel/lease-model.ts';

export type LeaseCommand = fc.AsyncCommand<LeaseModel, RealKernel>;

const OPERATOR = { actor: 'operator', reason: 'because', namespaces: null };
const LADDERS: readonly Ladder[] = [KEY_LADDERS.fast, KEY_LADDERS.standard, serviceLadder(1_000)];
/** Two keys, so that stops after a forced end are met often, and one of each other face. */
const RESOURCES: readonly Omit<Resource, 'namespace'>[] = [
  { face: 'key', name: 'k1' },
  { face: 'key', name: 'k2' },
  { face: 'lease', name: 'l' },
  { face: 'environment', name: 'e' },
];
const HOLDERS = ['alice', 'bob', 'carol'];

function command(
  name: string,
  run: (model: LeaseModel, real: RealKernel) => Promise<void>,
  needsGrant = true,
): LeaseCommand {
  return {
    check: (model) => !needsGrant || model.grants.length > 0,
    async run(model, real) {
      await run(model, real);
      await expectAgreement(model, real);
    },
    toString: () => name,
  };
}

/** The grant that is `back` grants old: mostly one in force, sometimes one that is long over. */
function grantAt(model: LeaseModel, back: number): ModelGrant {
  const grant = model.grants[model.grants.length - 1 - (back % model.grants.length)];
  if (grant === undefined) throw new Error('the command needs a grant');
  return grant;
}

async function moveClock(
  model: LeaseModel,
  real: RealKernel,
  step: { elapsedMs: number; backMs: number },
): Promise<void> {
  model.elapsedMs += step.elapsedMs;
  model.nowMs += step.elapsedMs - step.backMs;
  await real.setClock(model.nowMs);
}

async function askForGrant(
  model: LeaseModel,
  real: RealKernel,
  asked: { resource: number; holder: number; ladder: number; confirms: boolean },
): Promise<void> {
  const { face, name } = RESOURCES[asked.resource] ?? { face: 'key', name: 'k1' };
  const holder = HOLDERS[asked.holder] ?? 'alice';
  const ask = {
    resource: { face, namespace: real.namespace, name },
    leaseId: randomUUID(),
    holder,
    principal: `token-${holder}`,
    ladder: LADDERS[asked.ladder] ?? serviceLadder(1_000),
    confirms: asked.confirms,
  };
  const expected = model.grant(ask);
  const { resource, ...rest } = ask;
  const actual = await real.kernel.leases.grant(aRequest({ ...resource, ...rest, actor: holder }));
  if ('heldBy' in expected) {
    expect(actual).toMatchObject({
      outcome: 'held',
      by: {
        leaseId: expected.heldBy.leaseId,
        fencingToken: String(expected.heldBy.token),
        holder: expected.heldBy.holder,
      },
    });
    return;
  }
  const { granted, from } = expected;
  expect(actual).toMatchObject({
    outcome: 'granted',
    grant: {
      leaseId: granted.leaseId,
      fencingToken: String(granted.token),
      remainingMs: granted.expiresAt - model.nowMs,
    },
  });
  if (from !== undefined) expectNoEarlySteal(model, from);
  if (actual.outcome === 'granted') believe(granted, model.elapsedMs, actual.grant.remainingMs);
}

/** I5: a grant that ran out is over by its holder's own clock before anybody else gets the resource. */
function expectNoEarlySteal(model: LeaseModel, from: ModelGrant): void {
  if (from.end === 'released' || from.isAbandoned) return;
  const isFreeAtOnce = from.end === 'revoked' && from.resource.face !== 'key';
  if (!isFreeAtOnce) {
    expect(model.elapsedMs, 'I5 no early steal').toBeGreaterThanOrEqual(from.believedUntilMs);
  }
}

function believe(grant: ModelGrant, localTimeMs: number, remainingMs: number): void {
  grant.believedUntilMs = Math.max(grant.believedUntilMs, localTimeMs + remainingMs);
}

/** A renewal that is carried out `delayMs` after it was sent, `times` times. */
async function askForRenewal(
  model: LeaseModel,
  real: RealKernel,
  asked: { back: number; wrong: keyof typeof WRONGS; delayMs: number; times: number },
): Promise<void> {
  const grant = grantAt(model, asked.back);
  const ref = refOf(grant, asked.wrong);
  const sentAtMs = model.elapsedMs;
  await moveClock(model, real, { elapsedMs: asked.delayMs, backMs: 0 });
  for (let time = 0; time < asked.times; time += 1) {
    const refusal = model.renew(ref);
    const actual = await real.kernel.leases.renew(ref.face, ref);
    expect(actual).toMatchObject(
      refusal === undefined
        ? { outcome: 'renewed', ladder: grant.ladder }
        : { outcome: 'refused', reason: refusal },
    );
    if (actual.outcome === 'renewed') {
      const { hardTerminateAtMs } = deadlinesFrom(actual.ladder, sentAtMs, actual.remainingMs);
      const expiresInMs = grant.expiresAt - model.nowMs;
      const slackMs = grant.ladder.ttlMs - grant.ladder.hardAfterMs;
      expect(hardTerminateAtMs, 'I8 a late answer is early').toBeLessThanOrEqual(
        model.elapsedMs + expiresInMs - slackMs,
      );
      believe(grant, sentAtMs, actual.remainingMs);
    }
  }
}

/** Ways in which a holder's request can be wrong. */
const WRONGS = {
  nothing: (ref: ModelRef): ModelRef => ref,
  principal: (ref: ModelRef): ModelRef => ({ ...ref, principal: 'token-mallory' }),
  token: (ref: ModelRef): ModelRef => ({
    ...ref,
    fencingToken: String(BigInt(ref.fencingToken) - 1n),
  }),
  face: (ref: ModelRef): ModelRef => ({
    ...ref,
    face: FACES[(FACES.indexOf(ref.face) + 1) % FACES.length] ?? 'key',
  }),
};

function refOf(grant: ModelGrant, wrong: keyof typeof WRONGS): ModelRef {
  return WRONGS[wrong]({
    leaseId: grant.leaseId,
    fencingToken: String(grant.givenToken),
    principal: grant.principal,
    face: grant.resource.face,
  });
}

const back = fc.nat({ max: 6 });
const wrong = fc.oneof(
  { weight: 6, arbitrary: fc.constant('nothing' as const) },
  {
    weight: 3,
    arbitrary: fc.constantFrom('principal' as const, 'token' as const, 'face' as const),
  },
);

const grants = fc
  .record({
    resource: fc.nat({ max: 3 }),
    holder: fc.nat({ max: 2 }),
    ladder: fc.nat({ max: 2 }),
    confirms: fc.boolean(),
  })
  .map((asked) =>
    command(
      `grant ${JSON.stringify(asked)}`,
      (model, real) => askForGrant(model, real, asked),
      false,
    ),
  );

const renewals = fc
  .record({
    back,
    wrong,
    delayMs: fc.constantFrom(0, 0, 1, 999, 1_000, 5_999),
    times: fc.constantFrom(1, 1, 2),
  })
  .map((asked) =>
    command(`renew ${JSON.stringify(asked)}`, (model, real) => askForRenewal(model, real, asked)),
  );

const releases = fc
  .record({
    back,
    wrong,
    result: fc.constantFrom('ok' as const, 'failed' as const),
    times: fc.constantFrom(1, 2),
  })
  .map((asked) =>
    command(`release ${JSON.stringify(asked)}`, async (model, real) => {
      const ref = refOf(grantAt(model, asked.back), asked.wrong);
      for (let time = 0; time < asked.times; time += 1) {
        const expected = model.release(ref, asked.result);
        const actual = await real.kernel.leases.release(ref.face, {
          ...ref,
          actor: 'holder',
          result: asked.result,
          detail: null,
        });
        expect(actual).toBe(expected);
      }
    }),
  );

const updates = fc
  .record({ back, wrong, metadata: fc.constantFrom(null, 'ready', { port: 8_080 }) })
  .map((asked) =>
    command(`update ${JSON.stringify(asked)}`, async (model, real) => {
      const ref = refOf(grantAt(model, asked.back), asked.wrong);
      const { metadata } = asked;
      const expected = model.update(ref, metadata);
      const request = { ...ref, actor: 'holder', metadata };
      expect(await updateHeld(real.kernel.store, ref.face, request)).toEqual(expected);
    }),
  );

const renewables = fc.record({ back, renewable: fc.boolean() }).map((asked) =>
  command(`setRenewable ${JSON.stringify(asked)}`, async (model, real) => {
    const grant = grantAt(model, asked.back);
    const expected = model.setRenewable(grant, asked.renewable);
    const changed = await setRenewable(
      real.kernel.store.general,
      grant.resource.face,
      asked.renewable,
      [{ ...OPERATOR, leaseId: grant.leaseId }],
    );
    expect(changed.has(grant.leaseId)).toBe(expected);
  }),
);

const revocations = fc
  .record({
    back,
    mode: fc.constantFrom('graceful' as const, 'force' as const),
    abandon: fc.boolean(),
  })
  .map((asked) =>
    command(`revoke ${JSON.stringify(asked)}`, async (model, real) => {
      const grant = grantAt(model, asked.back);
      const { expiresAt } = grant;
      const expected = model.revoke(grant, asked.mode, asked.abandon);
      const revoked = await revoke(real.kernel.store.general, grant.resource.face, [
        { ...OPERATOR, leaseId: grant.leaseId, mode: asked.mode, abandon: asked.abandon },
      ]);
      expect(revoked.get(grant.leaseId)?.stopsBy).toBe(expected === 'gone' ? undefined : expiresAt);
    }),
  );

const removals = fc.record({ back }).map((asked) =>
  command(`remove ${JSON.stringify(asked)}`, async (model, real) => {
    const grant = grantAt(model, asked.back);
    const expected = model.remove(grant);
    const removed = await remove(real.kernel.store.general, grant.resource.face, [grant.leaseId], {
      actor: 'operator',
      belief: TRUSTING_WATCH.belief(0),
    });
    expect(removed.has(grant.leaseId)).toBe(expected);
  }),
);

/** I11: two reapers at once end what has expired, once. */
const reaps = fc.constant(
  command('reap', async (model, real) => {
    const expected = model.reap();
    const sql = real.kernel.store.general;
    const { pages } = await readLeasePages(sql);
    const range = { fromPage: 0, toPage: pages, limit: 10_000, belief: TRUSTING_WATCH.belief(0) };
    const ended = (await Promise.all([reap(sql, range), reap(sql, range)])).flat();
    const own = ended
      .filter((grant) => grant.namespace === real.namespace)
      .map((grant) => grant.leaseId);
    expect(own.sort()).toEqual(expected.sort());
  }),
);

/** A row that owes a callback is kept: now and then use cases take all callbacks. */
const deletions = fc.boolean().map((areCallbacksTaken) =>
  command(`delete free rows ${String(areCallbacksTaken)}`, async (model, real) => {
    const sql = real.kernel.store.general;
    if (areCallbacksTaken) {
      model.owedCallbacks.clear();
      await sql.$queryRaw`delete from lease_reap where namespace = ${real.namespace} returning 1`;
    }
    model.deleteFree();
    const { pages } = await readLeasePages(sql);
    const range = { fromPage: 0, toPage: pages, limit: 10_000, datacenter: 'local' };
    await deleteFreeRows(sql, { ...range, belief: TRUSTING_WATCH.belief(0) });
  }),
);

const waits = fc
  .constantFrom(1, 500, 1_000, 5_000, 30_000, 3_600_000, 25 * 3_600_000, 193 * 3_600_000)
  .map((elapsedMs) =>
    command(
      `wait ${String(elapsedMs)}`,
      (model, real) => moveClock(model, real, { elapsedMs, backMs: 0 }),
      false,
    ),
  );

/** To the very instant of an expiry, and a millisecond to either side. */
const boundaries = fc.record({ back, offsetMs: fc.constantFrom(-1, 0, 1) }).map((asked) =>
  command(`until expiry ${JSON.stringify(asked)}`, async (model, real) => {
    const untilMs = grantAt(model, asked.back).expiresAt + asked.offsetMs - model.nowMs;
    await moveClock(model, real, { elapsedMs: Math.max(0, untilMs), backMs: 0 });
  }),
);

const stepsBack = fc
  .constantFrom(1, 800, 60_000, 30 * 24 * 3_600_000)
  .map((backMs) =>
    command(
      `clock steps back ${String(backMs)}`,
      (model, real) => moveClock(model, real, { elapsedMs: 0, backMs }),
      false,
    ),
  );

/** Every command, weighted by repetition: mostly grants, renewals and time. */
export const LEASE_COMMANDS: fc.Arbitrary<LeaseCommand>[] = [
  grants,
  grants,
  grants,
  renewals,
  renewals,
  renewals,
  releases,
  releases,
  updates,
  renewables,
  revocations,
  revocations,
  removals,
  reaps,
  deletions,
  waits,
  boundaries,
  boundaries,
  stepsBack,
];
