/** What a text names by itself, wherever it stands in it: a line of a log has ids between other words. Pure. */

export interface IdsInText {
  /** Of grants, or of tickets of callers that wait. */
  readonly uuids: string[];
  /** Fencing tokens. */
  readonly tokens: string[];
  readonly addresses: string[];
  readonly backendIds: string[];
  /** As services name themselves: `payments@host-7:4242`. */
  readonly holders: string[];
}

/** Of each kind; a line of a log has fewer. */
const IDS_MAX = 5;

const UUID = /(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-])/giu;
/** They begin at the milliseconds of 1970, so all are long; a time of a log with its offset is not one. */
const TOKEN = /(?<![\w.-])\d{10,19}(?![\w.-])/gu;
const ADDRESS =
  /(?<![\w.:@-])(?:\[[0-9a-f:]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?):\d{2,5}(?![\w.:])/giu;
const BACKEND = /(?<![\w-])bk-[a-z0-9]+(?![\w-])/gu;
const HOLDER = /(?<=^|[\s"'`=(,[{])[^\s"'`=(),[\]{}]+@[^\s"'`=(),[\]{}]+/gu;

export function idsInText(text: string): IdsInText {
  return {
    uuids: found(text, UUID).map((uuid) => uuid.toLowerCase()),
    tokens: found(text, TOKEN).filter((token) => BigInt(token) <= TOKEN_MAX),
    addresses: found(text, ADDRESS),
    backendIds: found(text, BACKEND),
    holders: found(text, HOLDER),
  };
}

/** The largest number that the database has for one. */
const TOKEN_MAX = 2n ** 63n - 1n;

function found(text: string, what: RegExp): string[] {
  return [...new Set(text.match(what))].slice(0, IDS_MAX);
}
