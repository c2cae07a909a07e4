import { startTestCluster } from '@leasehold/testing/stack';
import { MESSAGE_MS_MAX } from '@leasehold/api';
import type { Attack } from './attack.ts';
import { ATTACKS } from './attacks.ts';
import { carryOut, type Result } from './carry-out.ts';
import { measureMessages, messagesText } from './messages.ts';
import { tableOf } from './report.ts';
import { AttackStage, type Preset } from './stage.ts';

const PRESETS: readonly Preset[] = ['fast', 'standard'];
/** All of them, under both presets, are to end within five minutes. */
const ATTACK_MS = 3_500;
const IDLE_MS = 3_500;

/** Measures and prints what messages of each procedure cost. */
async function messageIsTooLong(): Promise<boolean> {
  const held = await measureMessages();
  process.stdout.write(`${messagesText(held)}\n`);
  return (held[0]?.ms ?? 0) > MESSAGE_MS_MAX;
}

/** Carries attacks out on a Leasehold of its own, and prints the results. */
async function attack(
  attacks: readonly Attack[],
  { preset, clusterUrl, signal }: { preset: Preset; clusterUrl: string; signal: AbortSignal },
): Promise<Result[]> {
  const results: Result[] = [];
  await using stage = await AttackStage.open(clusterUrl, preset);
  const idle = await stage.healthy.measure(IDLE_MS);
  for (const one of attacks) {
    signal.throwIfAborted();
    process.stderr.write(`${preset}: ${one.name} …\n`);
    results.push(await carryOut(one, stage, { idle, attackMs: ATTACK_MS }));
  }
  process.stdout.write(`\nThe preset ${preset}:\n${tableOf(idle, results)}\n`);
  return results;
}

async function main(names: readonly string[]): Promise<number> {
  const unknown = names.filter((name) => !ATTACKS.some((one) => one.name === name));
  if (unknown.length > 0) {
    const known = ATTACKS.map(({ name }) => name).join(' ');
    process.stderr.write(`unknown: ${unknown.join(' ')}; there are ${known}\n`);
    return 2;
  }
  const attacks = ATTACKS.filter(({ name }) => names.length === 0 || names.includes(name));
  const isTooLong = names.length === 0 && (await messageIsTooLong());
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      interrupted.abort(new Error('interrupted'));
    });
  }
  const cluster = await startTestCluster();
  const results: Result[] = [];
  try {
    const under = { clusterUrl: cluster.url, signal: interrupted.signal };
    for (const preset of PRESETS) results.push(...(await attack(attacks, { ...under, preset })));
  } finally {
    await cluster.stop();
  }
  return isTooLong || results.some(({ broken }) => broken.length > 0) ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
