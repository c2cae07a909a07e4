import { expect, test } from './fixtures/test.ts';
test('sign in', async ({ pageAs, stack, seeded }) => {
  const t0 = performance.now();
  const page = await pageAs('operator');
  page.on('console', (m) => console.log('console', m.type(), m.text().slice(0, 300)));
  page.on('response', (r) => { if (r.status() >= 400) console.log(r.status(), r.url()); });
  await page.goto('/keys');
  await expect(page.getByRole('heading', { level: 1, name: 'Keys' })).toBeVisible();
  await page.screenshot({ path: '/tmp/keys.png' });
  console.log(performance.now() - t0, stack.url);
});
