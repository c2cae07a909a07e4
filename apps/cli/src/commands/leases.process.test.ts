import { failCallback, waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CliStage, heldLease } from '../testing/cli-controller.ts';

let cli: CliStage;

const WAITED = {
  namespace: ['waited'],
  ttlMs: 600_000,
  waitMs: 60_000,
  localTimeMs: 0,
};
const WAITED_TOGETHER = {
  ttlMs: 600_000,
  waitMs: 60_000,
  localTimeMs: 0,
  holder: 'mover',
  idempotencyKey: 'w2',
};

beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);

afterAll(() => cli.close());

describe('leasehold leases', () => {
  test('ls and show say who holds a lease, for how much longer, and what for', async () => {
    await heldLease(cli.api(), ['shown', 'here'], '42');

    const list = await cli.run('leases', 'ls', '--namespace', 'shown');
    const shown = await cli.run('leases', 'show', 'shown.here/42');

    expect(list.stdout).toMatch(
      /^LEASE +PHASE +REMAINING +HOLDER .*\nshown\.here\/42 +held +\d\d\.\d s +worker-1 +\d+ .* ago +for tests$/mu,
    );
    expect(shown.stdout).toMatch(/^holder +worker-1$/mu);
    expect(shown.stdout).toMatch(/^comment +for tests$/mu);
    expect(shown.stdout).toMatch(/^renewal +allowed$/mu);
  });

  test('show --at says who held a lease then, and refuses what is no moment', async () => {
    const { fencingToken } = await heldLease(cli.api(), ['past'], 'a');
    const held = await cli.answer<{ grantedAt: string }>('leases', 'show', 'past/a');
    await cli.run('leases', 'revoke', 'past/a', '--force', '--reason', 'wedged');
    const at = (moment: string) => cli.run('leases', 'show', 'past/a', '--at', moment);

    const then = await at(held.grantedAt);
    const before = await at('2001-02-03 04:05');

    expect(then.stdout).toMatch(/^phase +held$/mu);
    expect(then.stdout).toMatch(/^holder +worker-1$/mu);
    expect(then.stdout).toMatch(new RegExp(`^fencing token +${fencingToken}$`, 'mu'));
    expect(then.stdout).toMatch(/^ended +revoked by .*: wedged$/mu);
    expect(before.stdout).toMatch(
      /^What happened to lease past\/a at 2001-02-03T04:05:00\.000Z is not kept\. The oldest moment that is kept is 20/u,
    );
    const wrong = await at('yesterday');
    expect(wrong.exitCode).toBe(2);
    expect(wrong.stderr).toContain('2026-11-25T03:12:00Z');
    expect(await cli.refused('leases', 'show', 'past/a', '--at', '2999-01-01 00:00')).toMatchObject(
      {
        code: 'request.invalid',
      },
    );
  });

  test('ls filters by namespace, with or without its children, by prefix and by phase, and sorts', async () => {
    await heldLease(cli.api(), ['filtered'], 'a');
    await heldLease(cli.api(), ['filtered', 'below'], 'b');
    const names = async (...args: string[]): Promise<string[]> => {
      const page = await cli.answer<{ items: { name: string }[] }>('leases', 'ls', ...args);
      return page.items.map(({ name }) => name);
    };

    expect(await names('--namespace', 'filtered')).toEqual(['a', 'b']);
    expect(await names('--namespace', 'filtered', '--no-children')).toEqual(['a']);
    expect(await names('--namespace', 'filtered', '--prefix', 'b')).toEqual(['b']);
    expect(await names('--namespace', 'filtered', '--desc', '--sort', 'name')).toEqual(['b', 'a']);
    expect(await names('--namespace', 'filtered', '--phase', 'free')).toEqual([]);
  });

  test('tree counts by namespace, children included', async () => {
    await heldLease(cli.api(), ['trees', 'oak'], 'a');
    await heldLease(cli.api(), ['trees', 'fir'], 'b');

    const tree = await cli.run('leases', 'tree', 'trees');

    expect(tree.stdout).toMatch(/^ +trees +2 +0 +0 +0 +0$/mu);
    expect(tree.stdout).toMatch(/^ +trees\.oak +1 +0 +0 +0 +0$/mu);
  });

  test('ls, tree and env ls leave out what Leasehold holds for itself, unless asked for it', async () => {
    // A controller holds its own leases soon after it has started.
    const own = (...args: string[]) => cli.run('leases', ...args);
    await waitUntil(async () => (await own('ls', '--internal')).stdout.includes('leasehold/'));

    expect((await own('ls', '--all')).stdout).not.toContain('leasehold/');
    expect((await own('ls', '--namespace', 'leasehold')).stdout).toContain('leasehold/');
    expect((await own('tree')).stdout).not.toContain('leasehold');
    expect((await own('tree', '--internal')).stdout).toContain('leasehold');
    expect((await own('tree', 'leasehold')).stdout).toContain('leasehold');
  });

  test('block-renewal lets a lease run out, allow-renewal undoes it, and the history shows both', async () => {
    const lease = await heldLease(cli.api(), ['blocked'], 'a');
    const ref = { leaseId: lease.leaseId, fencingToken: lease.fencingToken };
    const renew = async (): Promise<string | undefined> => {
      const { results } = await cli.api().leases.heartbeat.mutate({
        localTimeMs: 0,
        renewals: [ref],
      });
      return results[0]?.outcome;
    };

    const blocked = await cli.run('leases', 'block-renewal', 'blocked/a', '--reason', 'drain it');
    const whileBlocked = await renew();
    const again = await cli.run('leases', 'block-renewal', 'blocked/a');
    const allowed = await cli.run('leases', 'allow-renewal', 'blocked/a');
    const afterwards = await renew();
    const history = await cli.run('leases', 'history', 'blocked/a');

    expect(blocked.stdout).toBe('blocked/a is not renewed any more, and will expire.\n');
    expect([whileBlocked, afterwards]).toEqual(['refused', 'renewed']);
    expect(again.stdout).toContain('Nothing changed');
    expect(allowed.stdout).toBe('blocked/a may be renewed again.\n');
    expect(history.stdout).toMatch(/renewal_blocked .* drain it /u);
    expect(history.stdout).toMatch(/renewal_allowed .*granted|granted .*renewal_allowed/su);
  });

  test('history shows the holder and the comment of each grant, also of those that are over', async () => {
    const first = await heldLease(cli.api(), ['past'], 'twice');
    const { leaseId, fencingToken } = first;
    await cli.run('leases', 'release', leaseId, '--fencing-token', fencingToken);
    await cli.run(
      'leases',
      'acquire',
      'past/twice',
      '--holder',
      'worker-2',
      '--comment',
      'build 8',
    );

    const { stdout } = await cli.run('leases', 'history', 'past/twice');

    expect(stdout).toMatch(
      /granted +worker-2 +build 8 [^]*released +worker-1 +for tests [^]*granted +worker-1 +for tests /u,
    );
  });

  test('revoke --force frees a lease at once, and says who may still act and until when', async () => {
    await heldLease(cli.api(), ['revoked'], 'a');

    const revoked = await cli.run('leases', 'revoke', 'revoked/a', '--force', '--reason', 'stuck');
    const next = await heldLease(cli.api(), ['revoked'], 'a');

    expect(revoked.exitCode).toBe(0);
    expect(revoked.stdout).toMatch(
      /^revoked\/a was revoked and is free\. If worker-1 cannot be reached, it may act until 20\d\d-.*Z\.$/mu,
    );
    expect(next.leaseId).toMatch(/^[0-9a-f-]{36}$/u);
  });

  test('waits says who waits for whom, what the holders wait for, and what a request wants together', async () => {
    const api = cli.api();
    for (const [key, holder] of [
      ['one', 'ann'],
      ['two', 'bob'],
    ] as const) {
      await api.leases.acquire.mutate({ ...WAITED, key, waitMs: 0, holder });
    }
    const waits = [
      api.leases.acquire.mutate({ ...WAITED, key: 'two', holder: 'ann', idempotencyKey: 'w1' }),
      api.leases.acquireAll.mutate({
        ...WAITED_TOGETHER,
        scopes: ['one', 'three'].map((key) => ({ namespace: ['waited'], key })),
      }),
    ];
    for (const wait of waits) wait.catch(() => undefined);
    const list = (...args: string[]) => cli.run('leases', 'waits', '-n', 'waited', ...args);
    await waitUntil(async () => (await list()).stdout.split('\n').length > 4);

    const { stdout } = await list();

    expect(stdout).toMatch(/^waited\/two +1 +ann +\d.* +bob +\d/mu);
    expect(stdout).toMatch(
      /^waited\/one +1 +mover +\d.* with waited\/three +ann +\d.* waited\/two$/mu,
    );
    const { items } = await cli.answer<{ items: { face: string }[] }>('leases', 'waits');
    expect(items.map(({ face }) => face)).toContain('lease');
    expect((await list('--face', 'environment')).stdout).toBe('Nobody waits.\n');
    expect((await cli.run('leases', 'waits', '--face', 'room')).exitCode).toBe(2);
  });

  test('failing-callbacks names the lease, its service, the tries, the next try and the error, escaped', async () => {
    const none = await cli.run('leases', 'failing-callbacks', '--namespace', 'broken');
    await cli.api().leases.declare.mutate({
      declarations: [{ namespace: ['broken', 'calls'], ttlMs: 1_000 }],
    });
    await failCallback(cli.databaseUrl, {
      namespace: ['broken', 'calls'],
      key: '42',
      error: 'no account\n\u001B[31m42',
    });

    const list = await cli.run('leases', 'failing-callbacks', '--namespace', 'broken');
    const elsewhere = await cli.run('leases', 'failing-callbacks', '--namespace', 'other');
    const { items } = await cli.answer<{ items: { tries: number; lastError: string }[] }>(
      ...['leases', 'failing-callbacks', '--namespace', 'broken'],
    );

    expect(list.stdout).toMatch(/^LEASE +SERVICE +TRIES +NEXT TRY +GIVEN UP +LAST ERROR\n/u);
    expect(list.stdout).toMatch(
      /^broken\.calls\/42 +bootstrap admin +1 +(?:now|in .* s|in \d+ ms) +in 23 h 59 m +no account\\u\{a\}\\u\{1b\}\[31m42$/mu,
    );
    expect(items).toMatchObject([{ tries: 1, lastError: 'no account\n\u001B[31m42' }]);
    expect([none.stdout, elsewhere.stdout]).toEqual([
      'No callback fails.\n',
      'No callback fails.\n',
    ]);
  });

  test('why says who holds a lease and who waits, who made others wait, and what is taken in opposite orders', async () => {
    const take = (holder: string, key: string, waitMs = 0) =>
      cli.api().leases.acquire.mutate({
        namespace: ['explained'],
        key,
        holder,
        waitMs,
        ttlMs: 30_000,
        localTimeMs: 0,
      });
    const leaseOf = async (asked: ReturnType<typeof take>) => {
      const answer = await asked;
      if (answer.outcome !== 'granted') {
        throw new Error(`the test expected a grant: ${answer.outcome}`);
      }
      const { leaseId, fencingToken } = answer.lease;
      return { leaseId, fencingToken };
    };
    for (const [holder, order] of [
      ['ann', ['a', 'b']],
      ['bob', ['b', 'a']],
    ] as const) {
      const held = [];
      for (const key of order) held.push(await leaseOf(take(holder, key)));
      for (const lease of held) await cli.api().leases.release.mutate(lease);
    }
    const first = await leaseOf(take('ann', 'a'));
    const second = take('cem', 'a', 30_000);
    const line = async () => cli.api().leases.waiters.query({ namespace: 'explained', name: 'a' });
    await waitUntil(async () => (await line()).items.length === 1);

    const one = await cli.run('leases', 'why', 'explained/a', '--since', '10m');
    await cli.api().leases.release.mutate(first);
    await leaseOf(second);
    const all = await cli.run('leases', 'why', '--namespace', 'explained');
    const none = await cli.run('env', 'why', 'explained/never');

    expect(one.stdout).toMatch(
      /^Held now\nHOLDER .*\nann +bootstrap admin .* ago +\d.* s +[0-9a-f-]{36}\n/u,
    );
    expect(one.stdout).toMatch(/^1 waits now\nPLACE .*\n +1 +cem +\d/mu);
    expect(one.stdout).toMatch(
      /^Since 20\S+Z, 1 caller waited \d.* together, the longest \d.*\.\nmade them wait\nHOLDER .*\nann +bootstrap admin +\d/mu,
    );
    const opposite =
      /^ {2}explained\/b while holding explained\/a: 1 time, by ann, last at 20\S+Z\n {2}explained\/a while holding explained\/b: 1 time, by bob,/mu;
    expect(one.stdout).toMatch(opposite);
    expect(all.stdout).toMatch(
      /^Waited for since 20\S+Z\.\nSCOPE .*\nexplained\/a +lease +\d.* ann \(\d/mu,
    );
    expect(all.stdout).toMatch(opposite);
    expect(none.stdout).toMatch(
      /^Nobody holds it\.\n\nNobody waits\.\n\nNobody waited since 20\S+Z\.\n\nNo leases were taken in opposite orders since 20/u,
    );
    const names = await cli.run('leases', 'why', 'explained/a', '-o', 'name');
    expect(names.stdout).toBe('ann\n');
    const { blockers } = await cli.answer<{ blockers: object[] }>('leases', 'why', 'explained/a');
    expect(blockers).toMatchObject([{ holder: 'ann', actor: 'bootstrap admin', grants: 1 }]);
    expect(await cli.refused('leases', 'why', 'explained/a', '--since', '3d')).toMatchObject({
      code: 'cli.usage',
    });
  });

  test('a lease that nobody ever held ends with 4, and a text that cannot be a scope with 2', async () => {
    expect(await cli.refused('leases', 'show', 'no/such')).toEqual({
      exitCode: 4,
      code: 'lease.not_found',
    });
    expect(await cli.refused('leases', 'show', 'no..such/a')).toEqual({
      exitCode: 2,
      code: 'cli.usage',
    });
  });

  test('with --namespace the whole scope is the key, slashes too', async () => {
    await heldLease(cli.api(), ['with', 'slash'], 'a/b');

    const shown = await cli.answer<{ name: string }>(
      ...['leases', 'show', 'a/b', '--namespace', 'with.slash'],
    );

    expect(shown.name).toBe('a/b');
    expect((await cli.run('leases', 'show', 'with.slash/a/b')).exitCode).toBe(0);
  });
});

describe('leasehold leases, of what several may hold at once', () => {
  const permits = (...args: string[]) => cli.run('leases', 'permits', ...args);
  const acquire = (...args: string[]) => cli.run('leases', 'acquire', ...args);

  test('permits set and show the number, as many acquire a lease, and show tells how many and who they are', async () => {
    const unset = await permits('show', 'exports');
    const set = await permits(
      ...['set', 'exports', '--per-key', '2', '--total', '5', '--reason', 'more workers'],
    );
    const one = await acquire('exports/acme', '--permit', '--holder', 'one');
    await acquire('exports/acme', '--permit', '--holder', 'two');
    const refused = await acquire('exports/acme', '--permit', '--holder', 'three');
    const shown = await cli.run('leases', 'show', 'exports/acme');
    const number = await permits('show', 'exports');

    expect(unset.stdout).toBe('No number of permits is set for exports.\n');
    expect(set.stdout).toBe('Set: 2 may hold each key of exports, and 5 all keys together.\n');
    expect(one.exitCode).toBe(0);
    expect(refused.exitCode).toBe(6);
    expect(refused.stderr).toContain('In use: 2/2 permits.');
    expect(shown.stdout).toMatch(/^held +2\/2 permits$/mu);
    expect(shown.stdout).toMatch(/^of all keys +2\/5 permits$/mu);
    for (const holder of ['one', 'two']) {
      expect(shown.stdout).toMatch(
        new RegExp(`^${holder} +permit +20.*Z +.* s +[0-9]+ +[0-9a-f-]{36}$`, 'mu'),
      );
    }
    expect(number.stdout).toMatch(/^for each key +2\nfor all keys +5\nset by +.*\nheld +2$/mu);
    expect(await cli.answer('leases', 'permits', 'show', 'exports')).toMatchObject({
      namespace: 'exports',
      permits: { perKey: 2, total: 5 },
      held: 2,
      waiting: 0,
    });
    expect(await cli.answer('leases', 'show', 'exports/acme')).toMatchObject({
      pool: { used: 2, permits: 2, total: { used: 2, permits: 5 } },
    });
  });

  test('one of several holders is revoked by the id of its lease, and nobody where none is named', async () => {
    const scope = 'exports/revoked';
    const reason = ['--reason', 'stuck'];
    await permits('set', 'exports', '--per-key', '2', '--total', '5', ...reason);
    await acquire(scope, '--permit', '--holder', 'one');
    const two = await cli.answer<{ leaseId: string }>(
      ...['leases', 'acquire', scope, '--permit', '--holder', 'two'],
    );
    const revoke = (...args: string[]) =>
      cli.run('leases', 'revoke', scope, '--force', ...reason, ...args);
    const unnamed = await revoke();
    const blocked = await cli.run('leases', 'block-renewal', scope);
    const strange = await revoke('--lease-id', crypto.randomUUID());
    const before = await cli.run('leases', 'show', scope, '--at', new Date().toISOString());
    const named = await revoke('--lease-id', two.leaseId);

    for (const { exitCode, stderr } of [unnamed, blocked]) {
      expect(exitCode).toBe(2);
      expect(stderr).toContain('2 hold exports/revoked at once: --lease-id must name');
    }
    expect(strange.stderr).toContain('Nobody holds exports/revoked with the lease id');
    expect(before.stdout).toMatch(/^holders +2$/mu);
    expect(before.stdout).toMatch(/^one +permit .*\ntwo +permit /mu);
    expect(named.stdout).toMatch(/^two no longer holds exports\/revoked: /u);
    expect(await cli.answer('leases', 'show', scope)).toMatchObject({
      pool: { used: 1, holders: [{ holder: 'one' }] },
    });
  });

  test('acquire --shared holds a lease beside others that share it, and only beside those', async () => {
    const first = await acquire('documents/d', '--shared', '--holder', 'reader');
    const second = await acquire('documents/d', '--shared', '--json');
    const writer = await acquire('documents/d');
    const shown = await cli.run('leases', 'show', 'documents/d');

    expect([first.exitCode, second.exitCode, writer.exitCode]).toEqual([0, 0, 6]);
    expect(JSON.parse(second.stdout)).toMatchObject({ namespace: 'documents', name: 'd' });
    expect(writer.stderr).toContain('In use: 2 shared.');
    expect(shown.stdout).toMatch(/^held +2 shared$/mu);
    expect(shown.stdout).toMatch(/^reader +shared /mu);
  });

  test('run --shared runs beside another that shares one of its leases', async () => {
    await acquire('documents/run', '--shared');
    const scopes = ['documents/run', 'documents/other'];
    const beside = ['leases', 'run', ...scopes, '--shared', '--', 'echo', 'read'];

    const ended = await cli.run(...beside);

    expect(ended).toMatchObject({ exitCode: 0, stdout: 'read\n', stderr: '' });
  });

  test.each([
    ['Give either --shared or --permit', ['acquire', 'a/b', '--permit', '--shared']],
    ['The namespace a..b must not', ['permits', 'show', 'a..b']],
    ['--per-key must be', ['permits', 'set', 'a', '--per-key', '0', '--reason', 'r']],
    ['--total must be', ['permits', 'set', 'a', '--per-key', '1', '--total', 'x', '--reason', 'r']],
    ["required option '--reason", ['permits', 'set', 'a', '--per-key', '1']],
  ])('what makes no sense is wrong usage: %s', async (message, args) => {
    const failed = await cli.run('leases', ...args);

    expect(failed.stderr).toContain(message);
    expect(failed.exitCode).toBe(2);
  });

  test('a lease with permits is not shared, one without has none to take, and a total that comes later counts all', async () => {
    await permits('set', 'fixed', '--per-key', '2', '--reason', 'r');
    await acquire('fixed/a', '--permit');

    const shared = await cli.refused('leases', 'acquire', 'fixed/a', '--shared');
    const none = await cli.refused('leases', 'acquire', 'unset/a', '--permit');
    await permits('set', 'fixed', '--per-key', '2', '--total', '1', '--reason', 'r');
    const another = await acquire('fixed/b', '--permit');

    expect(shared).toMatchObject({ code: 'request.invalid' });
    expect(none).toMatchObject({ code: 'lease.permits_not_declared' });
    expect(another.exitCode).toBe(6);
  });
});

describe('leasehold env', () => {
  async function held(environment: string | string[]): Promise<void> {
    const answer = await cli.api().environments.tryAcquire.mutate({
      environment,
      action: 'deploy',
      holder: 'ci',
      comment: 'build 7',
      localTimeMs: 0,
    });
    expect(answer.outcome).toBe('granted');
  }

  test('ls and show say who holds an environment, and for which action', async () => {
    await held(['team', 'app', 'prod']);

    const list = await cli.run('env', 'ls', '--namespace', 'team');
    const shown = await cli.run('env', 'show', 'team.app/prod');

    expect(list.stdout).toMatch(
      /^ENVIRONMENT .*\nteam\.app\/prod +held .* ci +deploy .* build 7$/mu,
    );
    expect(shown.stdout).toMatch(/^action +deploy$/mu);
  });
});

describe('leasehold env freeze', () => {
  interface Frozen {
    readonly freeze: { readonly freezeId: string; readonly windows: { until: string }[] };
  }

  async function ask(environment: string[], action = 'deploy') {
    return cli
      .api()
      .environments.tryAcquire.mutate({ environment, action, holder: 'ci', localTimeMs: 0 })
      .then(
        ({ outcome }) => outcome,
        (error: unknown) => (error as Error).message,
      );
  }

  test('add freezes an environment, ls, env ls and env show say so, and remove ends it', async () => {
    await ask(['froze', 'app', 'prod'], 'first');
    const added = await cli.run(
      ...['env', 'freeze', 'add', 'froze.app/prod', '--until', '2h', '--reason', 'the audit is on'],
    );
    expect(added.stdout).toMatch(
      /^froze\.app\/prod is frozen until .*Z: the audit is on\.\nFreeze /u,
    );
    const list = await cli.run('env', 'freeze', 'ls', 'froze.app/prod');
    const [, freezeId = ''] =
      /^([0-9a-f-]{36}) +froze\.app\/prod +frozen /mu.exec(list.stdout) ?? [];
    const shown = await cli.run('env', 'show', 'froze.app/prod');
    const all = await cli.run('env', 'ls', '--namespace', 'froze');

    expect(await ask(['froze', 'app', 'prod'])).toMatch(
      /^The environment is frozen until .*: the audit is on$/u,
    );
    expect(shown.stdout).toMatch(/^frozen +until .*Z because the audit is on$/mu);
    expect(all.stdout).toMatch(/ until .*Z because the audit is on$/mu);

    const removed = await cli.run('env', 'freeze', 'remove', freezeId, '--reason', 'done');
    expect(removed.stdout).toBe('froze.app/prod is not frozen by it any more.\n');
    const again = await cli.run('env', 'freeze', 'remove', freezeId, '--reason', 'done');
    expect(again.exitCode).toBe(4);
    const history = await cli.run('env', 'freeze', 'ls', '-n', 'froze', '--all', '-o', 'wide');
    expect(history.stdout).toMatch(/ removed .*: done$/mu);
    expect((await cli.run('env', 'freeze', 'ls', '-n', 'froze')).stdout).toMatch(
      /^No freezes; --all /u,
    );
  });

  test('add freezes all of a namespace, every week, for one action, and names who may override it', async () => {
    const { freeze } = await cli.answer<Frozen & { freeze: object }>(
      ...['env', 'freeze', 'add', '-n', 'weekly', '--weekly', 'Fri 17:00-Mon 08:00'],
      ...['--zone', 'Europe/Zurich', '--reason', 'weekend', '--action', 'deploy'],
      ...['--allow-role', 'admin', '--allow', 'ci', '--allow', 'ada@example.com'],
    );

    expect(freeze).toMatchObject({
      namespace: 'weekly',
      name: null,
      action: 'deploy',
      recurrence: { schedule: '0 17 * * 5', durationMs: 226_800_000, zone: 'Europe/Zurich' },
      allow: { roles: ['admin'], people: ['ci', 'ada@example.com'] },
    });
    const list = await cli.run('env', 'freeze', 'ls', '-n', 'weekly');
    expect(list.stdout).toMatch(
      / weekly\/\* +deploy .* 0 17 \* \* 5 for 63h, Europe\/Zurich +weekend$/mu,
    );
  });

  test.each([
    ['Name an environment', ['--until', '2h']],
    ['Give one of', ['x/prod']],
    ['Give one of', ['x/prod', '--until', '2h', '--weekly', 'Sat 10:00-14:00']],
    ['--weekly must be', ['x/prod', '--weekly', 'weekends']],
    ['--weekly must be', ['x/prod', '--weekly', 'Fri 17:00-Fri 17:00']],
    ['--cron needs --for', ['x/prod', '--cron', '0 0 * * *']],
    ['--from needs --until', ['x/prod', '--from', '2h']],
    ['--until must be', ['x/prod', '--until', 'tomorrow']],
    ['zone must be', ['x/prod', '--weekly', 'Sat 10:00-14:00', '--zone', 'Mars']],
    ['--allow-role', ['x/prod', '--until', '2h', '--allow-role', 'king']],
  ])('add refuses what makes no sense, and says what is wrong: %s', async (message, args) => {
    const failed = await cli.run('env', 'freeze', 'add', ...args, '--reason', 'r');

    expect(failed.stderr).toContain(message);
    expect(failed.exitCode).toBe(2);
  });
});
