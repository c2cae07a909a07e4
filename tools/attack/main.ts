import { startTestCluster } from '@leasehold/testing/stack';
import { MESSAGE_MS_MAX } from '@leasehold/api';
import { ATTACKS } from './attacks.ts';
import { carryOut, type Result } from './carry-out.ts';
import { measureMessages, messagesText } from './messages.ts';
import { tableOf } from './report.ts';
import { AttackStage } from './stage.ts';

const ATTACK_MS = 10_000;
const IDLE_MS = 5_000;

/** Measures and prints what messages of each procedure cost. */
async function messageIsTooLong(): Promise<boolean> {
  const held = await measureMessages();
  process.stdout.write(`${messagesText(held)}\n`);
  return (held[0]?.ms ?? 0) > MESSAGE_MS_MAX;
}

async function main(names: readonly string[]): Promise<number> {
  const unknown = names.filter((name) => !ATTACKS.some((attack) => attack.name === name));
  if (unknown.length > 0) {
    const known = ATTACKS.map(({ name }) => name).join(' ');
    process.stderr.write(`unknown: ${unknown.join(' ')}; there are ${known}\n`);
    return 2;
  }
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
    await using stage = await AttackStage.open(cluster.url);
    const idle = await stage.healthy.measure(IDLE_MS);
    for (const attack of ATTACKS) {
      if (names.length > 0 && !names.includes(attack.name)) continue;
      interrupted.signal.throwIfAborted();
      process.stderr.write(`${attack.name} …\n`);
      results.push(await carryOut(attack, stage, { idle, attackMs: ATTACK_MS }));
    }
    process.stdout.write(`${tableOf(idle, results)}\n`);
  } finally {
    await cluster.stop();
  }
  return isTooLong || results.some(({ broken }) => broken.length > 0) ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
