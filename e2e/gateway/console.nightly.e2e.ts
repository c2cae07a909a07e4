import { freePort } from '@leasehold/testing/stack';
import { checkSchemes } from '../fixtures/axe.ts';
import { openRoom, untilLive } from '../fixtures/grants.ts';
import { LADDER, startStack } from '../fixtures/stack.ts';
import { expect, signIn, test } from '../fixtures/test.ts';

test('the console lists the gateway, and opens a key and a backend through it, or copies the address', async ({
  browser,
}) => {
  const port = await freePort();
  const url = `http://localhost:${String(port)}`;
  const stack = await startStack({
    name: 'e2e_gateway',
    ladder: LADDER,
    env: { LEASEHOLD_GATEWAY_URL: url },
  });
  try {
    await stack.startGateway({ port });
    const room = await openRoom(stack, 'opened');
    const context = await browser.newContext({
      baseURL: stack.consoleUrl,
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    const page = await context.newPage();
    await signIn(page, stack.people.operator);
    const found: string[] = [];

    await page.goto('/drones');
    await untilLive(page);
    const gateways = page.getByRole('region', { name: 'Gateways' }).first();
    await expect(gateways).toContainText(url);
    await expect(gateways.getByRole('row').filter({ hasText: 'gateway-1' })).toContainText('Ready');
    await checkSchemes(page, 'gateways', found);

    for (const path of [room.path, `/backends/detail?id=${room.backendId}`]) {
      await page.goto(path);
      await untilLive(page);
      const opening = context.waitForEvent('page');
      await page.getByRole('button', { name: 'Open', exact: true }).click();
      const opened = await opening;
      await expect(opened.locator('body')).toContainText(`"backendId":"${room.backendId}"`);
      // The token is in no address that is kept.
      expect(opened.url()).toMatch(new RegExp(`^${url}/k/`, 'u'));
      await opened.close();

      await page.getByRole('button', { name: 'Copy URL' }).click();
      await expect(page.getByRole('button', { name: 'Copied' })).toBeVisible();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      const answer = await fetch(copied, { redirect: 'manual' });
      expect(copied.startsWith(`${url}/t/`)).toBe(true);
      expect([200, 302, 303, 307]).toContain(answer.status);
      await checkSchemes(page, path, found);
    }
    expect(found).toEqual([]);
    await context.close();
  } finally {
    await stack.close();
  }
});
