import { randomUUID } from 'node:crypto';
import type { Locator, Page } from '@playwright/test';
import { violationsOf } from '../fixtures/axe.ts';
import { holdLease, openRoom, untilLive } from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

/** Some characters that no other test's names have. */
const unique = (): string => randomUUID().slice(0, 8);

async function open(page: Page): Promise<Locator> {
  await page.keyboard.press('Control+k');
  const palette = page.getByRole('dialog', { name: 'Command palette' });
  await expect(palette.getByLabel('Go to')).toBeFocused();
  return palette;
}

const heading = (page: Page, name: string): Locator =>
  page.getByRole('heading', { level: 1, name });

test.describe('the palette', () => {
  test('opens a key with two keystrokes beyond its name, as it is printed or by a part of it', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, unique());
    const page = await pageAs('viewer');
    for (const text of [`${room.namespace}/${room.name}`, room.name.slice(2, -1).toUpperCase()]) {
      await page.goto('/');
      await untilLive(page);
      await open(page);

      // Typed and sent as fast as a person can: Enter does not wait for the answer, but takes it.
      await page.keyboard.type(text);
      await page.keyboard.press('Enter');

      await heading(page, room.name).waitFor();
    }
  });

  test('opens what a line of a log names: a lease id, a token, a backend, an address', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, unique());
    const page = await pageAs('viewer');
    const lines = [
      [`21:31:26 WARN lease ${room.leaseId} was lost`, room.name],
      [`refused: fencingToken=${room.fencingToken}`, room.name],
      [`backend ${room.backendId} crashed`, room.backendId],
      [`connect ECONNREFUSED ${room.address}`, room.backendId],
    ] as const;
    for (const [line, name] of lines) {
      await page.goto('/');
      await untilLive(page);
      await open(page);
      await page.keyboard.insertText(line);
      await page.keyboard.press('Enter');
      await heading(page, name).waitFor();
    }
  });

  test('g and a letter go to a page, as its shortcut says', async ({ pageAs }) => {
    const page = await pageAs('viewer');
    await page.goto('/');
    await untilLive(page);
    for (const [letter, name] of [
      ['k', 'Keys'],
      ['l', 'Leases'],
      ['o', 'Overview'],
    ] as const) {
      // In one go: the first of the two is remembered only for a moment.
      await Promise.all([page.keyboard.press('g'), page.keyboard.press(letter)]);
      await heading(page, name).waitFor();
    }
  });

  test('finds pages and acts of the console at once, and says when nothing has a name', async ({
    pageAs,
  }) => {
    const page = await pageAs('viewer');
    await page.goto('/');
    await untilLive(page);

    await open(page);
    await page.keyboard.type('drones');
    await page.keyboard.press('Enter');
    await heading(page, 'Drones').waitFor();

    const palette = await open(page);
    await page.keyboard.type('pause live');
    await page.keyboard.press('Enter');
    await expect(page.getByRole('button', { name: 'Resume live changes' })).toBeVisible();

    await open(page);
    await page.keyboard.type('no such thing');
    await expect(palette.getByRole('status')).toHaveText('No results.');
    await page.keyboard.press('Escape');
    await expect(palette).toHaveCount(0);
  });

  test('results that arrive move neither a choice that was made nor what the pointer is over', async ({
    pageAs,
    stack,
  }) => {
    const stem = unique();
    for (const nth of [1, 2, 3]) {
      await holdLease(stack, { key: `${stem}-${String(nth)}`, holder: 'h' });
    }
    const page = await pageAs('viewer');
    await page.goto('/');
    await untilLive(page);
    const palette = await open(page);
    const options = palette.getByRole('option');
    const chosen = palette.getByRole('option', { selected: true });
    const height = async (): Promise<number> => (await palette.boundingBox())?.height ?? 0;
    const emptyHeight = await height();
    await page.keyboard.type(stem);
    await expect(options).toHaveCount(3);
    await expect(chosen).toContainText(`${stem}-1`);

    await page.keyboard.press('ArrowDown');
    await expect(chosen).toContainText(`${stem}-2`);
    // The answer to the next text is held back: what was found before stays, and so does the place.
    let answer = (): void => undefined;
    const held = new Promise<void>((resolve) => (answer = resolve));
    await page.route('**/trpc/search.find**', async (route) => {
      await held;
      await route.continue();
    });
    await page.keyboard.type('-');
    await expect(palette.getByRole('status')).toHaveText('Searching…');
    await expect(options).toHaveCount(3);
    await options.nth(2).hover();
    await options.nth(2).hover({ position: { x: 40, y: 8 } });
    await expect(chosen).toContainText(`${stem}-3`);
    answer();
    await expect(palette.getByRole('status')).toHaveText(/Move the pointer away/u);
    await expect(chosen).toContainText(`${stem}-3`);
    expect(await height()).toBe(emptyHeight);
    await options.nth(2).click();
    await heading(page, `${stem}-3`).waitFor();

    // And it is what was opened last.
    await page.goto('/');
    await untilLive(page);
    await open(page);
    await expect(palette.getByRole('group', { name: 'Recent' }).getByRole('option')).toContainText([
      `${stem}-3`,
    ]);
  });

  test('offers what can be done on the open page, as the buttons of that page do', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, unique());
    const page = await pageAs('operator');
    await page.goto(room.path);
    await heading(page, room.name).waitFor();
    await open(page);
    await page.keyboard.type('revoke');
    await page.keyboard.press('Enter');
    await expect(
      page.getByRole('dialog', { name: new RegExp(`Revoke .*${room.name}`, 'u') }),
    ).toBeVisible();

    const watching = await pageAs('viewer');
    await watching.goto(room.path);
    await heading(watching, room.name).waitFor();
    const palette = await open(watching);
    await watching.keyboard.type('revoke');
    const revoke = palette.getByRole('option', { name: `Revoke ${room.name}` });
    await expect(revoke).toHaveAttribute('aria-disabled', 'true');
    await expect(revoke).toContainText('This needs the role operator');
    await watching.keyboard.press('Enter');
    await expect(palette).toBeVisible();
  });

  test('keeps what was found when a search fails, and says what failed', async ({
    pageAs,
    stack,
  }) => {
    const stem = unique();
    await holdLease(stack, { key: stem, holder: 'h' });
    const page = await pageAs('admin', { reducedMotion: 'reduce' });
    await page.goto('/');
    await untilLive(page);
    const palette = await open(page);
    await page.keyboard.type(stem);
    await expect(palette.getByRole('option')).toHaveCount(1);
    expect(await violationsOf(page, 'everything')).toEqual([]);

    await page.route('**/trpc/search.find**', (route) =>
      route.fulfill({
        status: 404,
        contentType: 'application/json',
        body: JSON.stringify({
          error: {
            message: 'No such procedure.',
            code: -32004,
            data: { leaseholdCode: 'request.not_found', retryable: false },
          },
        }),
      }),
    );
    await page.keyboard.press('Backspace');
    await expect(palette.getByRole('status')).toContainText(
      'The search failed: No such procedure.',
    );
    await expect(palette.getByRole('option')).toHaveCount(1);
  });
});

test('a list finds a part of the name as it is printed, and Escape leaves its search', async ({
  pageAs,
  stack,
}) => {
  const stem = unique();
  const lease = await holdLease(stack, { key: stem, holder: 'h' });
  const page = await pageAs('viewer');
  await page.goto('/leases');
  await untilLive(page);
  await page.keyboard.press('/');
  const search = page.getByLabel('Search leases');
  await expect(search).toBeFocused();
  await page.keyboard.type(`${lease.namespace.slice(1)}/${stem.slice(0, -1)}`.toUpperCase());
  await expect(page.getByRole('row')).toHaveCount(2);
  await expect(page.getByRole('row').nth(1)).toContainText(stem);

  await page.keyboard.press('Escape');

  await expect(search).not.toBeFocused();
  await expect(search).not.toHaveValue('');
});
