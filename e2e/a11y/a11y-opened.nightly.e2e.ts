import type { Locator, Page } from '@playwright/test';
import { checkSchemes } from '../fixtures/axe.ts';
import { holdLease, tableOf, untilLive } from '../fixtures/grants.ts';
import { openPage } from '../fixtures/open-page.ts';
import { expect, test } from '../fixtures/test.ts';
import { PAGES } from '../pages.ts';

/** What opens below a button: a menu, or the filter of a time. */
const OPENED = '[role="menu"]:visible, [role="dialog"]:visible';

/** What opens in the middle of a page, and how; on the page of this name in `PAGES`. */
const DIALOGS: readonly (readonly [on: string, what: string, open: Open])[] = [
  ['key', 'revoke', button('Revoke')],
  ['key', 'block', button('Block renewal')],
  ['environment', 'revoke by force', forced],
  ['drone', 'drain', button('Drain')],
  ['drone', 'mark lost', button('Mark lost')],
  ['backend', 'terminate', button('Stop')],
  ['reservations', 'reserve', button('Reserve')],
  ['events', 'one event', ofFirstRow],
  ['audit', 'one entry', ofFirstRow],
  ['access', 'a new token', button('New token')],
  ['access', 'the limits of a token', chosen('grafana', 'Show limits')],
  ['access', 'revoke a token', chosen('grafana', 'Revoke')],
  ['people', 'an invitation', button('Invite')],
  ['people', 'another role', chosen('vera.lindqvist@example.com', 'Change role')],
  ['people', 'a new password', chosen('vera.lindqvist@example.com', 'Reset password')],
  ['people', 'disable', chosen('vera.lindqvist@example.com', 'Disable')],
  ['overview', 'the own password', ofAccount('Change password')],
  ['overview', 'sign out everywhere', ofAccount('Sign out everywhere')],
];

type Open = (page: Page) => Promise<void>;

function button(name: string): Open {
  return (page) => page.getByRole('main').getByRole('button', { name, exact: true }).click();
}

function ofFirstRow(page: Page): Promise<void> {
  return page.locator('main tbody').getByRole('button').first().click();
}

/** By the menu of a row. */
function chosen(row: string, label: string): Open {
  return async (page) => {
    await page.getByRole('button', { name: `Actions for ${row}` }).click();
    await page.getByRole('menuitem', { name: label, exact: true }).click();
  };
}

function ofAccount(label: string): Open {
  return async (page) => {
    await page.getByRole('button', { name: /^Account of/ }).click();
    await page.getByRole('menuitem', { name: label, exact: true }).click();
  };
}

async function forced(page: Page): Promise<void> {
  await button('Revoke')(page);
  await page
    .getByRole('dialog')
    .getByText(/^Force/)
    .click();
}

test.describe('accessible when it is open', () => {
  test('every menu and every filter of each page, in light and dark', async ({
    pageAs,
    seeded,
  }) => {
    test.setTimeout(400_000);
    const page = await pageAs('admin', { reducedMotion: 'reduce' });
    const found: string[] = [];
    const seen = new Set<string>();
    for (const shown of PAGES) {
      await openPage(page, shown, seeded);
      const openers = page.locator('button[aria-haspopup][aria-expanded]:visible');
      for (const name of await namesOf(openers)) {
        // The menus of rows differ only in their name, and those of the header not at all.
        const kind = name.replace(/^(Actions for).*/u, `$1 ${shown.name}`);
        if (seen.has(kind)) continue;
        seen.add(kind);
        await openers
          .and(page.getByRole('button', { name, exact: true }))
          .first()
          .click();
        await page.locator(OPENED).first().waitFor();
        await checkSchemes(page, `${shown.name}, ${name}`, found);
        await page.keyboard.press('Escape');
        await expect(page.locator(OPENED)).toHaveCount(0);
      }
    }

    expect(found).toEqual([]);
    expect([...seen]).toEqual(expect.arrayContaining(['Colours', 'Export', 'Actions for people']));
    expect([...seen].join('\n')).toMatch(/time/iu);
  });

  test('every dialog, in light and dark', async ({ pageAs, seeded }) => {
    test.setTimeout(400_000);
    const page = await pageAs('admin', { reducedMotion: 'reduce' });
    const found: string[] = [];
    for (const [on, what, open] of DIALOGS) {
      const shown = PAGES.find(({ name }) => name === on);
      if (shown === undefined) throw new Error(`No page is called ${on}`);
      await openPage(page, shown, seeded);
      await open(page);
      const dialog = page.getByRole('dialog');
      await dialog.waitFor();
      await expect(dialog.locator('[aria-busy="true"]')).toHaveCount(0);
      await checkSchemes(page, `${on}, ${what}`, found);
      await page.keyboard.press('Escape');
      await expect(dialog).toHaveCount(0);
    }

    expect(found).toEqual([]);
  });

  test('the palette with what it found, the selection, the dialog of a bulk action and its panel, in light and dark', async ({
    pageAs,
    stack,
  }) => {
    const found: string[] = [];
    const stem = 'opened-in-bulk';
    for (const key of [`${stem}-a`, `${stem}-b`]) await holdLease(stack, { key, holder: 'batch' });
    const page = await pageAs('admin', { reducedMotion: 'reduce' });
    await page.goto(`/leases?q=${stem}`);
    await untilLive(page);
    await page.keyboard.press('Control+k');
    await page.keyboard.type(stem);
    await expect(page.getByRole('option')).toHaveCount(2);
    await checkSchemes(page, 'palette, found', found);
    await page.keyboard.press('Escape');

    const { row } = tableOf(page, 'leases');
    for (const key of [`${stem}-a`, `${stem}-b`]) await row(key).getByRole('checkbox').check();
    const selection = page.getByRole('region', { name: 'Selection' });
    await checkSchemes(page, 'selection', found);
    await selection.getByRole('button', { name: 'Revoke', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Revoke 2 leases' });
    await dialog.getByText(/^Force/).click();
    await dialog.getByLabel(/^Reason/).fill('The batch is broken');
    await dialog.getByLabel(/^To confirm, type/).fill('3');
    await checkSchemes(page, 'bulk dialog', found);
    await dialog.getByLabel(/^To confirm, type/).fill('2');
    await dialog.getByRole('button', { name: 'Revoke 2 leases' }).click();
    await page.getByRole('region', { name: 'Bulk action' }).waitFor();
    await checkSchemes(page, 'bulk panel', found);

    expect(found).toEqual([]);
  });
});

/** The names of buttons, each once. */
async function namesOf(buttons: Locator): Promise<string[]> {
  const all = await buttons.evaluateAll((each) =>
    each.map((one) => one.getAttribute('aria-label') ?? one.textContent.trim()),
  );
  return [...new Set(all)];
}
