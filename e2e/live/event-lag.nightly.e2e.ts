import { startTestCluster, type TestCluster } from '@leasehold/testing/stack';
import { holdLease, untilLive } from '../fixtures/grants.ts';
import { startStack, type Stack } from '../fixtures/stack.ts';
import { expect, signIn, test } from '../fixtures/test.ts';

/** A PostgreSQL of its own: an open transaction holds back the events of a whole cluster. */
test.describe('events that are held back', () => {
  let cluster: TestCluster;
  let stack: Stack;

  test.beforeAll(async () => {
    test.setTimeout(120_000);
    cluster = await startTestCluster();
    stack = await startStack({
      clusterUrl: cluster.url,
      name: 'e2e_held_back',
    });
  });

  test.afterAll(async () => {
    await stack.close();
    await cluster.stop();
  });

  test('are an alarm on the overview, with the transaction that holds them back and what ends it', async ({
    browser,
  }) => {
    const page = await (await browser.newContext({ baseURL: stack.consoleUrl })).newPage();
    await signIn(page, stack.people.viewer);
    await untilLive(page);
    const tile = page.getByRole('group', { name: 'Event lag' });
    await expect(tile).toContainText('none');

    const holding = await stack.sql.connect();
    const { rows } = await holding.query<{ pid: number }>('select pg_backend_pid() as pid');
    await holding.query(`set application_name = 'monthly-report'`);
    await holding.query('begin');
    await holding.query('select pg_current_xact_id()');
    await holdLease(stack, { key: 'unseen', holder: 'batch-worker' });

    const alarm = page.getByRole('status').filter({ hasText: 'Needs attention' });
    await expect(alarm).toContainText(/Events are late for \d+ s/);
    await expect(tile).toContainText(/\d+ s/);
    const panel = page.getByRole('region', { name: 'Events are held back' });
    await expect(panel).toContainText('monthly-report');
    await expect(panel).toContainText(`pid ${String(rows[0]?.pid)}`);
    await expect(panel).toContainText('idle in transaction');
    await expect(panel).toContainText(/Last statement began\s*\d+ s ago/);

    // What the page says to run, by the same user.
    const remedy = await panel.getByText('pg_terminate_backend').innerText();
    // A connection that is ended reports it more than once.
    const closed = new Promise((resolve) => holding.on('error', resolve));
    await stack.sql.query(remedy);
    await closed;
    holding.release(true);
    await expect(panel).toBeHidden();
    await expect(tile).toContainText('none');
  });
});
