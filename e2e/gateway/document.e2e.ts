import path from 'node:path';
import { expect, test, type Browser, type Page } from '@playwright/test';
import { freePort, openStage, type Stage } from '@leasehold/testing/stack';
import { ROOT } from '../browser.config.ts';
import { CLUSTER_VARIABLE } from '../fixtures/cluster-setup.ts';
import { LADDER } from '../fixtures/stack.ts';

/** The example, as its README has it. Each drone keeps its own documents: browsers bring theirs. */
const DOCUMENT = {
  command: process.execPath,
  args: [path.join(ROOT, 'examples/room-server/collaborative-document/server.mjs')],
  env: { DOCUMENTS: 'documents' },
  port: 'auto',
  readiness: { type: 'tcp' },
};

async function startRooms(): Promise<Stage> {
  const port = await freePort();
  const stage = await openStage({
    name: 'e2e_document',
    clusterUrl: process.env[CLUSTER_VARIABLE],
    ladder: LADDER,
    env: {
      LEASEHOLD_HEARTBEAT_MS: '700',
      LEASEHOLD_GATEWAY_URL: `http://localhost:${String(port)}`,
    },
  });
  await stage.startDrone({ droneId: 'drone-1', programs: { document: DOCUMENT } });
  await stage.startGateway({ port });
  return stage;
}

/** Opens the document as somebody, in a browser of their own. */
async function openDocument(stage: Stage, browser: Browser, user: string): Promise<Page> {
  const { url } = await stage.api('client').gateway.sign.mutate({
    key: { name: 'minutes' },
    access: { user, mayStart: true },
    spawn: { program: 'document' },
  });
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(url);
  await expect(page.locator('#state')).toHaveText('connected', { timeout: 60_000 });
  return page;
}

/** The first line, without the names of the others at their cursors. */
function textOf(page: Page): Promise<string> {
  return page
    .locator('.cm-line')
    .first()
    .evaluate((line) => {
      const copy = line.cloneNode(true) as Element;
      for (const cursor of copy.querySelectorAll('.cm-ySelectionCaret')) cursor.remove();
      return copy.textContent;
    });
}

test('two browsers edit one document; its drone is killed, and neither loses a keystroke', async ({
  browser,
}) => {
  const stage = await startRooms();
  try {
    const ada = await openDocument(stage, browser, 'ada');
    const bob = await openDocument(stage, browser, 'bob');
    await expect(ada.locator('body')).toContainText('You are ada');
    // The token is in no address that is kept or sent on.
    expect(new URL(ada.url()).pathname).toBe('/k/_/minutes/');
    await ada.locator('.cm-content').click();
    await ada.keyboard.type('hello ');
    await expect.poll(() => textOf(bob)).toContain('hello ');

    await stage.startDrone({ droneId: 'drone-2', programs: { document: DOCUMENT } });
    await stage.drones[0]?.stop();
    await expect(ada.locator('#state')).not.toHaveText('connected');
    await ada.keyboard.type('from ada ');
    await bob.locator('.cm-content').click();
    await bob.keyboard.press('Control+End');
    await bob.keyboard.type('from bob ');

    for (const page of [ada, bob]) {
      await expect(page.locator('#state')).toHaveText('connected', { timeout: 60_000 });
      for (const part of ['hello ', 'from ada ', 'from bob ']) {
        await expect.poll(() => textOf(page)).toContain(part);
      }
    }
    expect(await textOf(ada)).toBe(await textOf(bob));
    const [backend] = (await stage.api('viewer').backends.list.query({})).items;
    expect(backend).toMatchObject({ droneId: 'drone-2', status: 'ready' });
  } finally {
    await stage.close();
  }
});
