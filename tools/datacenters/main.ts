/** Three datacenters for people to try, with a prompt that cuts and restores the lines between them. */
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { ensureFirstAdmin, FIRST_ADMIN_EMAIL, type AdminSignIn } from '@leasehold/keys-core/access';
import { openStore } from '@leasehold/keys-core/postgres';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { startDatacenters, type Datacenters } from '@leasehold/testing/datacenters';
import { consoleOrigin, freePort, type Stage } from '@leasehold/testing/stack';
import { carryOut, HELP, statusOf } from './commands.ts';

/** One way: a round trip between two datacenters takes 40 ms, as between two ends of Europe. */
const DELAY_MS = 20;

interface OpenConsole {
  readonly url: string;
  readonly signIn: AdminSignIn | undefined;
}

async function openConsole(of: Stage, port: number): Promise<OpenConsole> {
  const { databaseUrl, datacenter } = of;
  const clock = createBootClock();
  const store = openStore({ databaseUrl, datacenter, clock, ids: systemIds() });
  try {
    const first = { email: FIRST_ADMIN_EMAIL, name: 'Administrator' };
    const signIn = await ensureFirstAdmin(store, first, () => undefined);
    return { url: (await of.startConsole({ port })).url, signIn };
  } finally {
    await store.close();
  }
}

function introduce(datacenters: Datacenters, open: OpenConsole | undefined): void {
  const [first = '', second = ''] = datacenters.names;
  const say = (line = ''): void => {
    console.log(line);
  };
  say('\nThree datacenters are running; a round trip between two of them takes 40 ms.\n');
  if (open !== undefined) {
    say(`Console of ${first}:  ${open.url}`);
    if (open.signIn !== undefined) {
      say(`  sign in as ${open.signIn.email} with ${open.signIn.password}`);
    }
    say();
  }
  for (const name of datacenters.names) {
    const { url, credentials } = datacenters.dc(name);
    say(`To be in ${name}, in another terminal:`);
    say(`  export LEASEHOLD_URL=${url} LEASEHOLD_TOKEN=${credentials.operator}`);
  }
  say('\nAnd then, in this folder:');
  say(
    `  npx leasehold connect lobby --program room --datacenter ${second}   # it lives in ${second}`,
  );
  say(`  npx leasehold connect lobby --program room                    # the same, from anywhere`);
  say('  npx leasehold reservations ls --datacenter all');
  say(
    `  npx leasehold reservations move lobby --to-datacenter ${first} --reason "to try it"   # only a free key moves`,
  );
  say(`\n${HELP}\n`);
}

/** Answers what is typed until `quit`, or until this process is asked to end. */
async function converse(datacenters: Datacenters, ended: AbortController): Promise<void> {
  const prompt = createInterface({ input: process.stdin, output: process.stdout });
  const end = (): void => {
    ended.abort();
  };
  prompt.on('SIGINT', end);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, end);
  prompt.on('line', (line) => {
    if (line.trim() === 'quit') {
      end();
      return;
    }
    void carryOut(datacenters, line)
      .catch((error: unknown) => (error instanceof Error ? error.message : String(error)))
      .then((answer) => {
        if (answer !== '') console.log(answer);
        prompt.prompt();
      });
  });
  prompt.prompt();
  if (!ended.signal.aborted) {
    // The channels of the child processes keep this one alive, even when nobody types.
    await new Promise((resolve) => ended.signal.addEventListener('abort', resolve));
  }
  prompt.close();
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { 'no-console': { type: 'boolean', default: false } } });
  const ended = new AbortController();
  console.log('Starting three databases, three members of etcd, three controllers …');
  const port = await freePort();
  const datacenters = await startDatacenters({
    delayMs: DELAY_MS,
    consoleOrigin: consoleOrigin(port),
  });
  let open: OpenConsole | undefined;
  try {
    const [first = ''] = datacenters.names;
    if (!values['no-console']) open = await openConsole(datacenters.dc(first), port);
    introduce(datacenters, open);
    console.log(await statusOf(datacenters));
    await converse(datacenters, ended);
    console.log('\nEnding everything …');
  } finally {
    await datacenters.close();
  }
}

await main();
process.exit(0);
