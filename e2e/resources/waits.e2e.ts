import { randomUUID } from 'node:crypto';
import { checkSchemes } from '../fixtures/axe.ts';
import { actWithReason, holdLease, tableOf, untilLive } from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

const NAMESPACE = ['e2e', 'jobs'];
const WAIT_MS = 60_000;

/** What every call of a holder has. */
const asked = () => ({ localTimeMs: 0, idempotencyKey: randomUUID() });

/** Some characters that no other test's names have. */
const unique = (): string => randomUUID().slice(0, 6);

/** Begins to wait; a refusal is no failure of the test. */
function begins(waiting: Promise<unknown>): void {
  waiting.catch(() => undefined);
}

test.describe('who waits, and for what', () => {
  test('the waits show a chain across two leases, a circle, and a request for several together', async ({
    pageAs,
    stack,
  }) => {
    const api = stack.api('client');
    const [one, two, three] = ['ledger', 'invoices', 'mails'].map((stem) => `${stem}-${unique()}`);
    if (one === undefined || two === undefined || three === undefined) throw new Error('no names');
    const wait = (key: string, holder: string): void => {
      const lease = { namespace: NAMESPACE, key, ttlMs: 600_000, waitMs: WAIT_MS };
      begins(api.leases.acquire.mutate({ ...asked(), ...lease, holder }));
    };
    await holdLease(stack, { key: one, holder: 'ann-worker' });
    await holdLease(stack, { key: two, holder: 'bob-worker' });
    wait(two, 'ann-worker');
    wait(one, 'cay-worker');
    const scopes = [one, three].map((key) => ({ namespace: NAMESPACE, key }));
    const together = { scopes, ttlMs: 600_000, waitMs: WAIT_MS, holder: 'dan-mover' };
    begins(api.leases.acquireAll.mutate({ ...asked(), ...together }));
    const page = await pageAs('viewer');
    await page.goto('/leases?tab=waits&q=namespace:e2e.jobs');
    await untilLive(page);

    const lines = page.getByRole('region', { name: 'Who is waiting for whom' });
    const ofOne = lines.getByRole('rowgroup').filter({ hasText: 'cay-worker' });
    await expect(ofOne).toContainText('held by ann-worker');
    const chain = ofOne.getByRole('note');
    await expect(chain).toContainText(`ann-worker waits itself for e2e.jobs/${two}`);
    await expect(ofOne).toContainText(`only together with e2e.jobs/${three}`);
    wait(one, 'bob-worker');
    await expect(chain).toContainText(`who waits for e2e.jobs/${one}`);
    await expect(chain).toContainText('They wait for each other.');
    const found: string[] = [];
    await checkSchemes(page, 'waits', found);
    expect(found).toEqual([]);
    await chain.getByRole('link', { name: two }).click();
    await expect(page.getByRole('heading', { level: 1, name: two })).toBeVisible();
  });

  test('a deploy queues behind another, a newer one supersedes it, and the page says by whom', async ({
    pageAs,
    stack,
  }) => {
    const environment = ['e2e', `prod-${unique()}`];
    const deploy = (holder: string, comment: string) => ({
      ...asked(),
      environment,
      action: 'deploy',
      durationMs: 600_000,
      holder,
      comment,
    });
    const { environments } = stack.api('client');
    await environments.tryAcquire.mutate(deploy('ci@1', '1.0.0'));
    begins(environments.acquire.mutate({ ...deploy('ci@2', '1.1.0'), waitMs: WAIT_MS }));
    const page = await pageAs('operator');
    await page.goto(
      `/environments/detail?namespace=e2e&name=${String(environment[1])}&tab=waiters`,
    );
    await untilLive(page);
    const queue = tableOf(page, 'queue');
    await expect(queue.row('ci@2')).toContainText('deploy 1.1.0');

    begins(
      environments.acquire.mutate({
        ...deploy('ci@3', '1.2.0'),
        waitMs: WAIT_MS,
        supersede: 'waiting',
      }),
    );

    await expect(queue.row('ci@3')).toContainText('deploy 1.2.0');
    await expect(queue.row('ci@2')).toHaveCount(0);
    const superseded = tableOf(page, 'superseded requests').row('ci@2');
    await expect(superseded).toContainText('ci@3 (1.2.0)');
    const found: string[] = [];
    await checkSchemes(page, 'queue', found);
    expect(found).toEqual([]);
  });

  test('a lease with permits shows how many of them are used, and by whom, and an operator revokes one', async ({
    pageAs,
    stack,
  }) => {
    const namespace = ['e2e', `pool-${unique()}`];
    const key = 'exports';
    const api = stack.api('client');
    const permits = { perKey: 3, total: 5 };
    await api.leases.declare.mutate({
      declarations: [{ namespace, ttlMs: 600_000, permits }],
    });
    const hold = (holder: string, of = key) =>
      api.leases.acquire.mutate({
        ...asked(),
        namespace,
        key: of,
        ttlMs: 600_000,
        mode: 'permit',
        holder,
      });
    for (const holder of ['export-1', 'export-2', 'export-3']) await hold(holder);
    await hold('import-1', 'imports');
    const page = await pageAs('operator');
    await page.goto(`/leases/detail?namespace=${namespace.join('.')}&name=${key}`);
    await untilLive(page);

    const panel = page.getByRole('region', { name: 'Holders', exact: true });
    await expect(panel).toContainText('3 of 3 permits held, 4 of 5 of all keys together');
    const row = (name: string) => panel.getByRole('row').filter({ hasText: name });
    const grants = tableOf(page, 'grants');
    await expect(grants.row('export-1')).toContainText('Current');
    await expect(grants.row('export-3')).toContainText('Current');
    const found: string[] = [];
    await checkSchemes(page, 'pool', found);
    expect(found).toEqual([]);
    await row('export-2').getByRole('button', { name: 'Revoke export-2' }).click();
    const dialog = page.getByRole('dialog', { name: `Revoke ${namespace.join('.')}/${key}` });
    await expect(dialog).toContainText('export-2 holds it');
    await dialog.getByText('Force: end it now').click();
    await actWithReason(page, {
      reason: 'Stuck since noon',
      typed: `${namespace.join('.')}/${key}`,
      label: 'Revoke by force',
    });

    await expect(row('export-2')).toHaveCount(0);
    await expect(grants.row('export-2')).toContainText('Stuck since noon');
    // Of a moment before, all who held it then.
    const { items } = await stack
      .api('viewer')
      .leases.history.query({ namespace: namespace.join('.'), name: key });
    const revoked = items.find(({ kind }) => kind === 'revoked');
    const before = new Date(Date.parse(String(revoked?.at)) - 1).toISOString();
    const moment = page.getByRole('region', { name: 'Who held it at a moment', exact: true });
    await moment.getByLabel('Who held it at …?').fill(before);
    await moment.getByLabel('Who held it at …?').press('Enter');
    await expect(moment.getByRole('status')).toContainText('Held by 3 at once');
    for (const holder of ['export-1', 'export-2', 'export-3']) {
      await expect(moment.getByRole('row').filter({ hasText: holder })).toBeVisible();
    }
    await checkSchemes(page, 'who held a permit', found);
    expect(found).toEqual([]);
    await expect(row('export-1')).toBeVisible();
    await expect(panel).toContainText('2 of 3 permits held');
  });

  test('the calendar of an environment shows a weekend that comes again, and who may override it', async ({
    pageAs,
    stack,
  }) => {
    const place = { namespace: `e2e.frozen-${unique()}`, name: 'prod' };
    await stack.api('client').environments.tryAcquire.mutate({
      ...asked(),
      environment: [...place.namespace.split('.'), place.name],
      action: 'deploy',
      holder: 'ci@1',
    });
    const { freeze } = await stack.api('operator').environments.freeze.mutate({
      namespace: place.namespace,
      reason: 'Nobody is at work',
      allowPeople: ['ann@example.com'],
      recurrence: { schedule: '0 17 * * 5', durationMs: 63 * 3_600_000, zone: 'Europe/Zurich' },
    });
    const page = await pageAs('operator');
    await page.goto(`/environments/detail?${new URLSearchParams(place).toString()}`);
    await untilLive(page);

    const panel = page.getByRole('region', { name: 'Freezes', exact: true }).first();
    await expect(panel.getByRole('row').filter({ hasText: 'Nobody is at work' })).toBeVisible();
    await panel.getByText('Calendar', { exact: true }).click();

    const weekend = /Fri \d+ \w+, 17:00 – Mon \d+ \w+, 08:00\s*Europe\/Zurich/u;
    const rows = panel.getByRole('row').filter({ hasText: weekend });
    await expect(rows.first()).toContainText(
      'May be overridden by operator, admin, ann@example.com.',
    );
    expect(await rows.count()).toBeGreaterThanOrEqual(5);
    const found: string[] = [];
    await checkSchemes(page, 'calendar of freezes', found);
    expect(found).toEqual([]);
    const { freezeId } = freeze;
    await stack.api('operator').environments.unfreeze.mutate({ freezeId, reason: 'over' });
  });
});
