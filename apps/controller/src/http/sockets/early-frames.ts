/**
 * Looks at the frames that a WebSocket receives before it is known who has opened it. A client sends its
 * token and its first calls as whole texts, each in one frame: what is in parts, compressed, binary or large is
 * not read at all. In parts, a message of a few bytes each would take a hundred times its size in memory.
 */

/** RFC 6455, section 5.2. */
const FINAL = 0x80;
const RESERVED = 0x70;
const OPCODE = 0x0f;
const TEXT = 1;
const CONTROL = 0x08;
const LENGTH = 0x7f;
const LENGTH_IN_2_BYTES = 126;
const LENGTH_IN_8_BYTES = 127;
const MASK_BYTES = 4;
/** Each frame costs some microseconds, however small it is. */
const FRAMES_MAX = 1_000;

/** Takes what arrives, in pieces of any size. @returns why the connection ends; undefined if it goes on. */
type EarlyFrames = (chunk: Buffer) => 'not whole' | 'too large' | undefined;

/** @param bytesMax what the first text may have, and all that arrives together. */
export function watchEarlyFrames(bytesMax: {
  readonly first: number;
  readonly all: number;
}): EarlyFrames {
  let receivedBytes = 0;
  let frameCount = 0;
  let isFirst = true;
  /** Of the present frame that are still to come, behind its header. */
  let payloadLeft = 0;
  let header = Buffer.alloc(0);
  return (chunk) => {
    receivedBytes += chunk.length;
    if (receivedBytes > bytesMax.all) return 'too large';
    let at = Math.min(payloadLeft, chunk.length);
    payloadLeft -= at;
    while (at < chunk.length) {
      header = Buffer.concat([header, chunk.subarray(at, at + 1)]);
      at += 1;
      if (!isWhole(header)) return 'not whole';
      const payloadBytes = payloadBytesOf(header);
      if (payloadBytes === undefined) continue;
      frameCount += 1;
      if (isFirst && payloadBytes > bytesMax.first) return 'too large';
      if (frameCount > FRAMES_MAX) return 'too large';
      if (!isControl(header)) isFirst = false;
      header = Buffer.alloc(0);
      payloadLeft = payloadBytes;
      const taken = Math.min(payloadLeft, chunk.length - at);
      payloadLeft -= taken;
      at += taken;
    }
    return undefined;
  };
}

/** Whether a frame is a whole text, or a control frame, of which the protocol has only small and whole ones. */
function isWhole(header: Buffer): boolean {
  const first = header[0] ?? 0;
  const isOne = (first & FINAL) !== 0 && (first & RESERVED) === 0;
  return isOne && ((first & OPCODE) === TEXT || isControl(header));
}

function isControl(header: Buffer): boolean {
  return ((header[0] ?? 0) & CONTROL) !== 0;
}

/** The payload of the frame with this header; undefined while the header is not complete. */
function payloadBytesOf(header: Buffer): number | undefined {
  if (header.length < 2) return undefined;
  const length = (header[1] ?? 0) & LENGTH;
  const more = length === LENGTH_IN_2_BYTES ? 2 : length === LENGTH_IN_8_BYTES ? 8 : 0;
  // Every frame of a client is masked: `ws` refuses any other.
  if (header.length < 2 + more + MASK_BYTES) return undefined;
  if (more === 0) return length;
  return more === 2 ? header.readUInt16BE(2) : Number(header.readBigUInt64BE(2));
}
