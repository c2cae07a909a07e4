import { describeError } from '@leasehold/api';
import { jsonOf } from '@leasehold/service-kit';
import type { RawData, WebSocket } from 'ws';
import type { WireCall } from './calls/inbox.ts';
import { textOf } from './sockets/socket-door.ts';
import { SocketFace } from './sockets/socket-face.ts';
import { endSocket, TOKEN_ENDED } from './sockets/socket-keeper.ts';

const POLICY_VIOLATION = 1_008;
/** Time for the first call behind the token to arrive, so that it is told why. */
const FIRST_CALL_MS_MAX = 1_000;
const FIRST_CALL_BYTES_MAX = 16 * 1_024;

/**
 * Ends a WebSocket of a caller that is not let in, with one answer: to its first call, or to the
 * connection where that is a batch, is large, or does not come.
 */
export function turnAway(
  socket: WebSocket,
  { error, early }: { readonly error: unknown; readonly early: readonly string[] },
): void {
  if (socket.readyState === socket.CLOSED) return;
  const { leaseholdCode } = describeError(error);
  const isUnknown = leaseholdCode.startsWith('auth.');
  let isAnswered = false;
  const answer = (message?: string): void => {
    if (isAnswered) return;
    isAnswered = true;
    clearTimeout(timer);
    if (socket.readyState === socket.OPEN) {
      socket.send(SocketFace.refusalOf(message === undefined ? null : idIn(message), error));
    }
    endSocket(socket, isUnknown ? TOKEN_ENDED : POLICY_VIOLATION, leaseholdCode);
  };
  const timer = setTimeout(answer, FIRST_CALL_MS_MAX);
  timer.unref();
  const [first] = early;
  if (first !== undefined) {
    answer(first);
    return;
  }
  socket.once('message', (data: RawData) => answer(textOf(data)));
  socket.resume();
}

function idIn(text: string): unknown {
  const call = text.length > FIRST_CALL_BYTES_MAX ? undefined : jsonOf(text);
  return (call as WireCall | null | undefined)?.id ?? null;
}
