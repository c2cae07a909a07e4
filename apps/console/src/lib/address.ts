/**
 * What a page shows is in the parameters of its address, so that reload, Back and Forward keep it. A
 * component reads and changes the parameters that it declares.
 */
import { usePathname, useSearchParams } from 'next/navigation';
import { useCallback, useEffect, useRef, useState } from 'react';

/** A kind of parameter: how its text is read and written. */
export interface Param<Value, Fallback = Value> {
  /** Null: this text is no value of it. */
  parse(text: string): Value | null;
  write(value: Value): string;
  /** Its value while the address does not have it. */
  readonly fallback: Fallback;
}

interface OptionalParam<Value> extends Param<Value, null> {
  /** The same with a value that the address need not have. */
  withDefault(value: Value): Param<Value>;
}

function optional<Value>(
  parse: (text: string) => Value | null,
  write: (value: Value) => string = String,
): OptionalParam<Value> {
  return { parse, write, fallback: null, withDefault: (fallback) => ({ parse, write, fallback }) };
}

export const textParam = optional<string>((text) => text);
export const integerParam = optional<number>((text) =>
  /^-?\d+$/u.test(text) ? Number(text) : null,
);
export const flagParam = optional<boolean>((text) => text === 'true');
export const textsParam = optional<string[]>(
  (text) => (text === '' ? [] : text.split(',')),
  (texts) => texts.join(','),
);

/** One of these; any other text is as good as none. */
export function choiceParam<Value extends string>(choices: readonly Value[]): OptionalParam<Value> {
  return optional<Value>((text) => choices.find((choice) => choice === text) ?? null);
}

type Params = Readonly<Record<string, Param<unknown, unknown>>>;
type Values<P extends Params> = {
  readonly [Name in keyof P]: P[Name] extends Param<infer Value, infer Fallback>
    ? Value | Fallback
    : never;
};
/** Null: back to what the parameter is without the address. */
type Changes<P extends Params> = {
  readonly [Name in keyof P]?: P[Name] extends Param<infer Value, unknown> ? Value | null : never;
};

/** Whether a change is a step of the browser's history, or takes the place of the last one. */
type Step = 'push' | 'replace';
/** What the address has for a parameter; null: nothing. */
type Text = readonly [name: string, text: string | null];

/** These parameters of the address, and what changes some of them. */
export function useQueryStates<P extends Params>(
  params: P,
  step: Step = 'push',
): readonly [Values<P>, (changes: Changes<P>) => void] {
  const address = useAddress();
  const latest = useRef(params);
  useEffect(() => {
    latest.current = params;
  });
  const change = useCallback(
    (changes: Changes<P>): void => changeAddress(textsOf(latest.current, changes), step),
    [step],
  );
  return [valuesOf(params, address), change];
}

/** One parameter of the address, and what changes it. */
export function useQueryState<Value, Fallback>(
  name: string,
  param: Param<Value, Fallback>,
  step: Step = 'push',
): readonly [Value | Fallback, (next: Value | null) => void] {
  const address = useAddress();
  const latest = useRef(param);
  useEffect(() => {
    latest.current = param;
  });
  const change = useCallback(
    (next: Value | null): void => changeAddress([[name, textOf(latest.current, next)]], step),
    [name, step],
  );
  return [valueOf(param, address.get(name)), change];
}

/** The values of these parameters in an address. Pure. */
export function valuesOf<P extends Params>(
  params: P,
  address: Pick<URLSearchParams, 'get'>,
): Values<P> {
  const all: Params = params;
  const values = Object.entries(all).map(
    ([name, param]) => [name, valueOf(param, address.get(name))] as const,
  );
  return Object.fromEntries(values) as Values<P>;
}

/** What the address is to have for each of these; null: nothing. Pure. */
export function textsOf<P extends Params>(params: P, changes: Changes<P>): Text[] {
  const all: Params = params;
  const known = changes as Readonly<Record<string, unknown>>;
  return Object.entries(all)
    .filter(([name]) => known[name] !== undefined)
    .map(([name, param]) => [name, textOf(param, known[name])] as const);
}

function valueOf<Value, Fallback>(
  param: Param<Value, Fallback>,
  text: string | null,
): Value | Fallback {
  return (text === null ? null : param.parse(text)) ?? param.fallback;
}

/** The address need not have what is the default. */
function textOf<Value, Fallback>(param: Param<Value, Fallback>, value: Value | null) {
  if (value === null) return null;
  const text = param.write(value);
  const isDefault = param.fallback !== null && text === param.write(param.fallback as never);
  return isDefault ? null : text;
}

/** The changes of this turn, which are one step of the history. */
let pending: { readonly texts: Map<string, string | null>; step: Step } | null = null;
/** Called when the address of the page that is shown has changed. */
const listeners = new Set<() => void>();

function changeAddress(texts: readonly Text[], step: Step): void {
  if (pending === null) {
    pending = { texts: new Map(), step: 'replace' };
    queueMicrotask(writeAddress);
  }
  for (const [name, text] of texts) pending.texts.set(name, text);
  if (step === 'push') pending.step = 'push';
}

function writeAddress(): void {
  if (pending === null) return;
  const { texts, step } = pending;
  pending = null;
  const url = new URL(window.location.href);
  const search = searchWith(url.searchParams, texts);
  if (search === searchWith(url.searchParams, new Map())) return;
  url.search = search;
  // A history entry without a state gets Next's state, and Next then reads the address.
  if (step === 'push') window.history.pushState(null, '', url);
  else window.history.replaceState(null, '', url);
  for (const listener of [...listeners]) listener();
}

/** The query of an address after these changes, as readable as it can be. Pure. */
export function searchWith(
  before: URLSearchParams,
  texts: ReadonlyMap<string, string | null>,
): string {
  const params = new URLSearchParams(before);
  for (const [name, text] of texts) {
    if (text === null) params.delete(name);
    else params.set(name, text);
  }
  // How many rows are before a page is of use only with the cursor of that page.
  if (!params.has('after')) params.delete('before');
  return params.toString().replaceAll('%3A', ':').replaceAll('%2C', ',').replaceAll('%2F', '/');
}

/**
 * The parameters of the address. Next reports them too late, or never: after a reload it asks the server
 * for each page that Back or Forward leads to, and if the next step comes before that answer, it returns
 * to the step before, while the address stays where it is. So within a page the address itself is read;
 * Next counts while it leads from one page to another.
 */
function useAddress(): Pick<URLSearchParams, 'get'> {
  const known = useSearchParams();
  const pathname = usePathname();
  const [own, setOwn] = useState<URLSearchParams | null>(null);
  useEffect(() => {
    const read = (): void => {
      const { pathname: path, search } = window.location;
      const params = new URLSearchParams(search);
      setOwn(path !== pathname || params.toString() === known.toString() ? null : params);
    };
    read();
    listeners.add(read);
    window.addEventListener('popstate', read);
    return () => {
      listeners.delete(read);
      window.removeEventListener('popstate', read);
    };
  }, [known, pathname]);
  return own ?? known;
}
