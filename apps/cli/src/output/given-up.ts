import type { DatacentersView } from '../views.ts';
import { durationText } from './duration.ts';
import { printable } from './printable.ts';

type GivenUpView = DatacentersView['givenUp'][number];

/** What a declaration means, and what it asks of the person who makes it. */
export function giveUpRiskText(name: string): string {
  return `Be certain that the controllers and the PostgreSQL of ${name} do not run. If it is only cut off, they go on granting its keys, and the keys would get a second home.
From the declaration on, ${name} does not start again, and a controller of it that reaches etcd stops. Its keys get other homes when every backend that it can still have has ended: run the command again then, the answer says when. Until then \`leasehold datacenters take-back ${name}\` undoes it. What its backends have stored on its machines does not come along.`;
}

/** What can go wrong when nobody waits. */
export function abandonRiskText(name: string): string {
  return `With --abandon the keys of ${name} get other homes at once, permanently. If a backend, a controller or the PostgreSQL of ${name} still runs, or is started within the wait that you leave out, two backends act for one key. Do it only if its machines are off and stay off.`;
}

export function givenUpText(givenUp: GivenUpView): string {
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
