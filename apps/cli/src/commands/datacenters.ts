import { leaseholdErrorOf } from '@leasehold/client';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import type { DatacentersView, DatacenterView } from '../controller-api.ts';
import { refusal } from '../failures.ts';
import { confirmed, withConfirmation, withReason, type ConfirmedOptions } from '../options.ts';
import { agoText, durationText, printable, tableText, type Column } from '../output/text.ts';

/** `leasehold datacenters`. */
export function addDatacenters(cli: Cli, program: Command): void {
  const parent = program
    .command('datacenters')
    .description('Show which datacenters can be reached, and give up one that is lost');
  cli
    .leaf(
      parent,
      'ls',
      'List the datacenters that the controller knows, and which of them it can reach',
    )
    .action(async () => {
      const answer = await cli.client().datacenters.list.query({});
      const { format } = cli.listing;
      const names = answer.items.map(({ name }) => name).join('\n');
      cli.show(answer, () => (format === 'name' ? names : datacentersText(answer)));
    });
  addGiveUp(cli, parent);
  addTakeBack(cli, parent);
}

interface GiveUpOptions extends ConfirmedOptions {
  readonly reason: string;
  readonly abandon?: boolean;
}

function addGiveUp(cli: Cli, parent: Command): void {
  const command = cli
    .leaf(parent, 'give-up <name>', 'Declare a datacenter lost, so that its keys get other homes')
    .option('--abandon', 'do not wait: nothing runs there, and you answer for it');
  withConfirmation(withReason(command, true)).action(
    async (datacenter: string, { reason, abandon = false, yes }: GiveUpOptions) => {
      confirmed({ yes }, abandon ? abandonRiskText(datacenter) : giveUpRiskText(datacenter));
      const givenUp = await cli
        .client()
        .datacenters.giveUp.mutate({ datacenter, reason, abandon })
        .catch((error: unknown) => {
          throw withRemaining(error);
        });
      cli.show(givenUp, () => givenUpText(givenUp));
    },
  );
}

function addTakeBack(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'take-back <name>',
    'Undo give-up while the keys of the datacenter wait',
  );
  withReason(command, true).action(async (datacenter: string, { reason }: { reason: string }) => {
    const answer = await cli.client().datacenters.takeBack.mutate({ datacenter, reason });
    cli.show(answer, () => `${datacenter} is not given up any more: it may be started again.`);
  });
}

/** A refusal that came too early names the time that is left. */
function withRemaining(error: unknown): unknown {
  const refused = leaseholdErrorOf(error);
  if (refused?.code !== 'reservation.give_up_early') return error;
  const { remainingMs } = refused.details;
  const left =
    typeof remainingMs === 'number'
      ? `for ${durationText(remainingMs)} more`
      : 'and nobody knows for how long, because it never made known how it is set up';
  return refusal(
    refused.code,
    `Something there may still act on its keys, ${left}.`,
    'Wait and run this again, or add --abandon if you are certain that its machines are off.',
  );
}

function datacentersText({ items, store, givenUp, asOf }: DatacentersView): string {
  const kind = store.kind === 'etcd' ? 'etcd' : "this datacenter's PostgreSQL";
  const since = store.since === null ? '' : `, since ${agoText(store.since, asOf)}`;
  const state = store.isReachable
    ? 'can be reached'
    : `cannot be reached${since}: no fresh key gets a home, and no key moves`;
  const lost = givenUp.map((one) => `\n${givenUpText(one)}`).join('');
  return `${tableText(items, columnsAt(asOf))}\n\nReservation store: ${kind}; it ${state}.${lost}`;
}

const columnsAt = (asOf: string): readonly Column<DatacenterView>[] => [
  { head: 'datacenter', text: ({ name, isLocal }) => (isLocal ? `${name} (this one)` : name) },
  { head: 'reachable', text: ({ isReachable }) => (isReachable ? 'yes' : 'no') },
  { head: 'since', text: ({ since }) => (since === null ? '' : agoText(since, asOf)) },
  { head: 'why', text: ({ code }) => code ?? '' },
  {
    head: 'round trip',
    text: ({ roundTripMs }) => (roundTripMs === null ? '' : `${roundTripMs.toFixed(1)} ms`),
    align: 'right',
  },
];

type GivenUpView = DatacentersView['givenUp'][number];

/** What a declaration means, and what it asks of the person who makes it. */
function giveUpRiskText(name: string): string {
  return `Be certain that the controllers and the PostgreSQL of ${name} do not run. If it is only cut off, they go on granting its keys, and the keys would get a second home.
From the declaration on, ${name} does not start again, and a controller of it that reaches etcd stops. Its keys get other homes when every backend that it can still have has ended: run the command again then, the answer says when. Until then \`leasehold datacenters take-back ${name}\` undoes it. What its backends have stored on its machines does not come along.`;
}

/** What can go wrong when nobody waits. */
function abandonRiskText(name: string): string {
  return `With --abandon the keys of ${name} get other homes at once, permanently. If a backend, a controller or the PostgreSQL of ${name} still runs, or is started within the wait that you leave out, two backends act for one key. Do it only if its machines are off and stay off.`;
}

function givenUpText(givenUp: GivenUpView): string {
  const { datacenter, declaredAt, declaredBy, reason, opened, remainingMs } = givenUp;
  const said = `${datacenter} was given up by ${printable(declaredBy)} at ${declaredAt} (${printable(reason)})`;
  if (opened !== null) {
    const how = opened.isAbandoned ? ', without a wait' : '';
    return `${said}. Since ${opened.at}${how}, its keys get other homes: at their next connect, or by \`reservations move\`.`;
  }
  if (remainingMs === null) {
    return `${said}. Nobody knows what may still run there: its keys get other homes only with --abandon.`;
  }
  return remainingMs === 0
    ? `${said}. Nothing can act on its keys any more: run give-up again, and they get other homes.`
    : `${said}. In ${durationText(remainingMs)} nothing can act on its keys any more: run give-up again then, and they get other homes.`;
}
