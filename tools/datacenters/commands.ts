import type { Datacenters } from '@leasehold/testing/datacenters';

/** What can be typed. */
export const HELP = `Type here:
  status               who leads, what is cut, whom each datacenter reaches
  cut dc2              cut dc2 off from all others; nobody is told, as in the world
  cut dc1 dc2          cut the line between the two
  heal [dc2]           restore the lines of dc2, or all
  delay 100            round trips between datacenters take 100 ms from now on
  kill dc2, start dc2  its controller, as by kill -9
  help, quit           Ctrl-C ends everything as well`;

/** A line that is cut looks like an idle one. */
const NOTICED = '"status" shows who has noticed, which takes a few seconds';
const ROUND_TRIP_MS_MAX = 10_000;

type Command = (datacenters: Datacenters, words: readonly string[]) => Promise<string> | string;

const COMMANDS: Readonly<Record<string, Command>> = {
  help: () => HELP,
  status: (datacenters) => statusOf(datacenters),
  cut(datacenters, [first, second]) {
    const a = named(datacenters, first);
    if (second === undefined) datacenters.cut(a);
    else datacenters.cutPair(a, named(datacenters, second));
    return `cut; ${NOTICED}`;
  },
  heal(datacenters, [name]) {
    datacenters.heal(name === undefined ? undefined : named(datacenters, name));
    return `restored; ${NOTICED}`;
  },
  delay(datacenters, [text]) {
    const roundTripMs = Number(text);
    if (!(roundTripMs >= 0 && roundTripMs <= ROUND_TRIP_MS_MAX)) {
      throw new Error(`delay: a number of milliseconds from 0 to ${String(ROUND_TRIP_MS_MAX)}`);
    }
    datacenters.delay(roundTripMs / 2);
    return `a round trip takes ${String(roundTripMs)} ms`;
  },
  async kill(datacenters, [name]) {
    await datacenters.dc(named(datacenters, name)).controller().kill();
    return 'killed';
  },
  async start(datacenters, [name]) {
    await datacenters.dc(named(datacenters, name)).restartController();
    return 'started';
  },
};

/** Carries out one line. @returns what to print. @throws when it is not a command, with the reason. */
export async function carryOut(datacenters: Datacenters, line: string): Promise<string> {
  const [verb = '', ...words] = line.trim().split(/\s+/u);
  if (verb === '') return '';
  const command = Object.hasOwn(COMMANDS, verb) ? COMMANDS[verb] : undefined;
  if (command === undefined) throw new Error(`there is no "${verb}"; "help" says what there is`);
  return command(datacenters, words);
}

function named(datacenters: Datacenters, name: string | undefined): string {
  if (name !== undefined && datacenters.names.includes(name)) return name;
  throw new Error(`name a datacenter: ${datacenters.names.join(', ')}`);
}

/** What is cut, who leads etcd, and what each datacenter knows of the others. */
export async function statusOf(datacenters: Datacenters): Promise<string> {
  const { names, cutPairs } = datacenters;
  const leader = await datacenters.leader();
  const cut = cutPairs.map(([a, b]) => `${a}-${b}`).join(', ');
  return [
    `etcd's leader: ${leader ?? 'none'}; cut: ${cut === '' ? 'nothing' : cut}`,
    ...(await Promise.all(names.map((name) => viewOf(datacenters, name)))),
  ].join('\n');
}

async function viewOf(datacenters: Datacenters, name: string): Promise<string> {
  try {
    const { items, store } = await datacenters.dc(name).api('viewer').datacenters.list.query({});
    const others = items
      .filter(({ isLocal }) => !isLocal)
      .map((item) => `${item.name} ${item.isReachable ? 'reached' : 'not reached'}`);
    const reservations = store.isReachable ? 'reached' : 'not reached';
    return `  ${name}: ${others.join(', ')}; the reservation store ${reservations}`;
  } catch {
    return `  ${name}: its controller does not answer`;
  }
}
