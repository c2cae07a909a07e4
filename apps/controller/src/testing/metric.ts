import type { TestController } from './test-controller.ts';

async function metricsOf(on: TestController): Promise<string[]> {
  const { secret } = await on.token('viewer');
  const response = await fetch(`${on.url}/metrics`, {
    headers: { authorization: `Bearer ${secret}` },
  });
  return (await response.text()).split('\n');
}

/** The value of a metric, by its name and labels as they are printed. */
export async function metric(on: TestController, name: string): Promise<number> {
  const line = (await metricsOf(on)).find((found) => found.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length + 1));
}
