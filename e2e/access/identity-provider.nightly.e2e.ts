import { consoleOrigin, freePort } from '@leasehold/testing/stack';
import { startOidcProvider, type OidcProvider } from '@leasehold/testing/oidc';
import type { Page } from '@playwright/test';
import { startStack, type Stack } from '../fixtures/stack.ts';
import { expect, test } from '../fixtures/test.ts';

const PROVIDER = 'Acme single sign-on';

/** A Leasehold of its own, whose people may also sign in with an identity provider. */
test.describe('sign-in with an identity provider', () => {
  let provider: OidcProvider;
  let stack: Stack;

  test.beforeAll(async () => {
    test.setTimeout(120_000);
    const consolePort = await freePort();
    provider = await startOidcProvider({
      consoleOrigin: consoleOrigin(consolePort),
      people: {
        omar: { email: 'omar.haddad@example.com', isVerified: true },
        eve: { email: 'eve@elsewhere.example', isVerified: true },
      },
    });
    stack = await startStack(
      {
        name: 'e2e_oidc',
        env: {
          LEASEHOLD_OIDC_ISSUER: provider.issuer,
          LEASEHOLD_OIDC_CLIENT_ID: provider.clientId,
          LEASEHOLD_OIDC_CLIENT_SECRET: provider.clientSecret,
          LEASEHOLD_OIDC_NAME: PROVIDER,
        },
      },
      consolePort,
    );
  });

  test.afterAll(async () => {
    await stack.close();
    await provider.close();
  });

  test('leads to the requested page; signing in again beside an open dialog keeps what was typed', async ({
    browser,
  }) => {
    const { namespace, name } = { namespace: 'rooms', name: 'kept' };
    await stack.api('client').keys.connect.mutate({
      key: { namespace, name },
      spawn: { program: 'room' },
    });
    const path = `/keys/detail?${new URLSearchParams({ namespace, name }).toString()}`;
    const context = await browser.newContext({ baseURL: stack.consoleUrl });
    const page = await context.newPage();
    await page.goto(path);
    await page.getByRole('button', { name: `Sign in with ${PROVIDER}` }).click();
    await identify(page, 'omar');

    await expect(page.getByRole('heading', { level: 1, name })).toBeVisible();
    expect(page.url()).toBe(stack.consoleUrl + path);

    await page.getByRole('button', { name: 'Block renewal', exact: true }).click();
    const reason = page.getByRole('dialog').getByLabel(/^Reason/);
    await reason.fill('Half of a sentence that must not be lost');
    // The cookies of the console alone: at the provider the person is still signed in.
    await context.clearCookies({ domain: 'localhost' });
    await page.getByRole('dialog').getByRole('button', { name: 'Block renewal' }).click();
    const ended = page.getByRole('dialog', { name: 'Your session has ended' });
    const opened = page.waitForEvent('popup');
    await ended.getByRole('button', { name: `Sign in with ${PROVIDER}` }).click();
    const beside = await opened;
    await expect.poll(() => beside.isClosed()).toBe(true);

    await expect(ended).toBeHidden();
    await expect(reason).toHaveValue('Half of a sentence that must not be lost');
    await context.close();
  });

  test('a person who was not invited is not let in, and is told why', async ({ browser }) => {
    const context = await browser.newContext({ baseURL: stack.consoleUrl });
    const page = await context.newPage();
    await page.goto('/sign-in');
    await page.getByRole('button', { name: `Sign in with ${PROVIDER}` }).click();
    await identify(page, 'eve');

    await expect(page).toHaveURL(new RegExp(`^${stack.consoleUrl}/sign-in`));
    await expect(page.getByRole('alert').filter({ hasText: /invit/iu })).toBeVisible();
    await context.close();
  });
});

/** What a person does at the provider: signs in, and lets the console know who they are. */
async function identify(page: Page, login: string): Promise<void> {
  await page.locator('input[name="login"]').fill(login);
  await page.locator('input[name="password"]').fill('any');
  await page.getByRole('button', { name: 'Sign-in' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
}
