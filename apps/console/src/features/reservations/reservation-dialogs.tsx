import { SegmentedControl, Select, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { useRouter } from 'next/navigation';
import { useState } from 'react';
import { keyNameOf, reservationKeyProblem } from '@leasehold/keys-core';
import { ApiError, type Outputs } from '~/lib/api/api.ts';
import { useDatacenters } from '~/lib/datacenters.ts';
import { duration } from '~/lib/format.ts';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { at, routes } from '~/lib/routes.ts';
import { ConsequenceList } from '~/resources/actions/act-parts.tsx';
import { type Consequences, consequencesOf } from '~/resources/actions/revoke-consequences.ts';
import { type GrantView, isInForce } from '~/resources/grant-view.ts';
import { keyLabel } from '~/resources/names.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';
import { Notice } from '~/ui/states.tsx';
import { Link } from '~/ui/text.tsx';
import { followedMoves } from './move-progress.ts';
import type { ReservationDetail } from './reservation-search.ts';

// What a move will do, in words, and by when it is over at the latest.

/** The consequences of a move that is requested at `nowMs` of the database's clock. */
export function moveConsequences(
  move: {
    readonly from: string;
    /** Null while no datacenter is chosen. */
    readonly to: string | null;
    /** Null: nobody was ever granted it; undefined: not known. */
    readonly grant: GrantView | null | undefined;
  },
  nowMs: number,
): Omit<Consequences, 'worstCaseMs'> {
  const { from, to, grant } = move;
  const there = to ?? 'the other datacenter';
  const sealing = [
    `${from} seals it in one transaction: nothing is granted there any more. This cannot be undone.`,
    `${there} takes it over. The next caller, in any datacenter, is sent there and gets a larger token.`,
  ];
  if (
    grant === undefined ||
    grant === null ||
    grant.phase === 'free' ||
    grant.phase === 'expired'
  ) {
    return {
      holder: grant === undefined ? 'It is unknown whether it is held.' : 'Nobody holds it.',
      steps: sealing,
      worstCase: 'It takes a moment. If it is granted before, it is not moved, and you are told.',
    };
  }
  if (!isInForce(grant)) {
    const heldMs = Math.max(0, Date.parse(grant.stopsBy ?? grant.expiresAt) - nowMs);
    return {
      holder: `It was ended by force and is held back: ${grant.holder} may still act.`,
      steps: ['Nothing happens until its backend is known to be gone.', ...sealing],
      worstCase: `It moves within ${duration(heldMs)} at worst.`,
    };
  }
  const revoke = consequencesOf(
    { face: 'key', grant, mode: 'graceful', isAbandoned: false },
    nowMs,
  );
  return {
    holder: `${revoke.holder} A held key does not move: it is revoked first, gracefully.`,
    steps: [...revoke.steps, ...sealing],
    worstCase: `${revoke.worstCase} Then it moves.`,
  };
}

// Refusals of reservations with what to do about them.

type Details = Readonly<Record<string, unknown>>;

const WHAT_TO_DO: Readonly<Record<string, (details: Details) => string>> = {
  'reservation.datacenter_unreachable': ({ datacenter }) =>
    `${textOf(datacenter, 'Its datacenter')} still serves its own keys. Try again when it can be reached.`,
  'reservation.store_unreachable': () =>
    'Keys whose home is known still work. Try again when etcd can be reached.',
  'reservation.not_found': () => 'Reserve it first, or connect to it.',
  'reservation.unknown_datacenter': ({ known }) =>
    Array.isArray(known)
      ? `This controller knows ${known.join(', ')}: see LEASEHOLD_PEERS.`
      : 'See LEASEHOLD_PEERS.',
  'reservation.same_datacenter': () => 'There is nothing to do.',
  'reservation.key_held': ({ holder, remainingMs }) =>
    `${textOf(holder, 'Another caller')} holds it${
      typeof remainingMs === 'number' ? ` for ${duration(remainingMs)} more unless renewed` : ''
    }. Revoke it, and move it when it is free.`,
  'reservation.moved_meanwhile': ({ datacenter }) =>
    `Its home is ${textOf(datacenter, 'another datacenter')} now. Refresh before you move it.`,
  'reservation.move_unfinished': ({ datacenter }) =>
    `It goes to ${textOf(datacenter, 'its new home')}. Move it there again when that can be reached, or connect to it.`,
  'reservation.chain_too_long': () => 'Use another key.',
  'reservation.conflict': () => 'Refresh. If it stays like this, see the runbook.',
  'grant.hold_off': () => 'Its last holder may still act. Try again in a moment.',
  'peer.refused': ({ datacenter }) =>
    `This controller and ${textOf(datacenter, 'the other datacenter')} must have the same LEASEHOLD_PEER_TOKEN for each other.`,
};

/** The failure, with advice if there is any. */
export function reservationFailure(error: ApiError | null): ApiError | null {
  const advice = error === null ? undefined : WHAT_TO_DO[error.code]?.(error.details);
  if (error === null || advice === undefined) return error;
  return retold(error, `${error.message} ${advice}`);
}

/** Why a move was not requested, or why the grant that a requested one waits for may not have been revoked. */
export function moveFailure(failed: {
  readonly request: ApiError | null;
  readonly revoke: ApiError | null;
}): ApiError | null {
  const request = reservationFailure(failed.request);
  const revoke = reservationFailure(failed.revoke);
  if (request !== null || revoke === null) return request;
  return retold(revoke, `The move is requested and waits. ${revoke.message}`);
}

/** The same failure in other words. */
function retold(error: ApiError, message: string): ApiError {
  const { code, isRetryable, incidentId, details } = error;
  return new ApiError(message, { code, isRetryable, incidentId, details, cause: error });
}

function textOf(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise;
}

type Grant = Outputs['keys']['get'];

export interface MoveDialogProps extends DialogProps {
  readonly reservation: ReservationDetail;
  /** The key's present grant, or null; undefined while it is not known. */
  readonly grant: Grant | undefined;
}

/**
 * Asks for a key to be moved to another datacenter. A held key does not move: its grant is revoked, and
 * the controllers move the key when it is free. A banner follows that (`move-banner.tsx`).
 */
export function MoveDialog(props: MoveDialogProps) {
  const { isOpen, onClose } = props;
  // The state when the dialog was opened: no later holder's grant is revoked for this move.
  const [about, setAbout] = useState(props);
  const [wasOpen, setWasOpen] = useState(isOpen);
  const [toDatacenter, setToDatacenter] = useState<string | null>(null);
  const move = useMove(about, onClose);
  if (isOpen !== wasOpen) {
    setWasOpen(isOpen);
    if (isOpen) {
      setAbout(props);
      setToDatacenter(null);
      move.reset();
    }
  }
  const { reservation, grant } = about;
  const isRevoked = grant !== undefined && grant !== null && isInForce(grant);
  return (
    <ActDialog
      isOpen={isOpen}
      onClose={onClose}
      title={`Move ${keyLabel(reservation.key)}`}
      reason="required"
      actLabel={isRevoked ? 'Revoke, then move' : 'Move'}
      isReady={toDatacenter !== null}
      act={{
        isPending: move.isPending,
        error: move.error,
        run: (reason) => {
          if (toDatacenter !== null) move.run(toDatacenter, reason ?? '');
        },
      }}
    >
      <Stack gap="sm">
        <TargetSelect
          home={reservation.datacenter}
          value={toDatacenter}
          onChange={setToDatacenter}
        />
        <MoveConsequences about={about} toDatacenter={toDatacenter} />
      </Stack>
    </ActDialog>
  );
}

/**
 * Requests the move, and revokes the grant of a held key. The request comes first: if it is refused,
 * no holder is stopped for nothing.
 */
function useMove({ reservation, grant }: MoveDialogProps, onDone: () => void) {
  const request = useApiMutation('reservations', 'requestMove');
  const revoke = useApiMutation('keys', 'revoke');
  const { key, reservationId, datacenter: fromDatacenter } = reservation;
  const held = grant === undefined || grant === null || isFree(grant) ? null : grant;
  return {
    isPending: request.isPending || revoke.isPending,
    error: moveFailure({ request: request.error, revoke: revoke.error }),
    reset() {
      request.reset();
      revoke.reset();
    },
    run(toDatacenter: string, reason: string): void {
      const what = { key: [...key], reservationId, toDatacenter, reason };
      const carryOut = async (): Promise<void> => {
        revoke.reset();
        const waitsFor = held?.leaseId ?? null;
        await request.mutateAsync({ ...what, waitsFor, ...at(fromDatacenter) });
        // From here on it waits, whatever becomes of the revoke: it is followed even if the page was left.
        followedMoves.follow({ key, fromId: reservationId, fromDatacenter, toDatacenter });
        if (held !== null && isInForce(held)) {
          const { leaseId, datacenter } = held;
          await revoke.mutateAsync({ leaseId, mode: 'graceful', reason, ...at(datacenter) });
        }
        onDone();
      };
      // The dialog shows the error.
      carryOut().catch(() => undefined);
    },
  };
}

function isFree({ phase }: { readonly phase: string }): boolean {
  return phase === 'free' || phase === 'expired';
}

function TargetSelect({
  home,
  value,
  onChange,
}: {
  readonly home: string;
  readonly value: string | null;
  readonly onChange: (datacenter: string | null) => void;
}) {
  const { items } = useDatacenters();
  return (
    <Select
      label="To datacenter"
      description={`Its home is ${home} now.`}
      placeholder="Choose a datacenter"
      required
      value={value}
      data={items
        .filter(({ name }) => name !== home)
        .map(({ name, isReachable }) => ({
          value: name,
          label: isReachable ? name : `${name}, cannot be reached`,
          disabled: !isReachable,
        }))}
      onChange={onChange}
    />
  );
}

/** Updated when another datacenter is chosen, and as time passes. */
function MoveConsequences({
  about: { reservation, grant },
  toDatacenter,
}: {
  readonly about: MoveDialogProps;
  readonly toDatacenter: string | null;
}) {
  const nowMs = useDatabaseNow() ?? databaseClock.nowMs() ?? 0;
  const move = { from: reservation.datacenter, to: toDatacenter, grant };
  return <ConsequenceList isInOrder consequences={moveConsequences(move, nowMs)} />;
}

type Kind = 'key' | 'list';

interface Typed {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
  /** One string on each line. */
  readonly lines: string;
}

const EMPTY_FORM: Typed = { kind: 'key', namespace: '', name: '', lines: '' };

/** Decides where a key is to live, permanently: only a move changes it. */
export function ReserveDialog({ isOpen, onClose }: DialogProps) {
  const router = useRouter();
  const { here } = useDatacenters();
  const [typed, setTyped] = useState<Typed>(EMPTY_FORM);
  const [chosen, setChosen] = useState<string | null>(null);
  const reserve = useApiMutation('reservations', 'reserve');
  const key = keyOf(typed);
  const problem = problemOf(typed, key);
  const existing = reserve.data?.outcome === 'existing' ? reserve.data : undefined;
  const change = (next: Partial<Typed>): void => {
    reserve.reset();
    setTyped({ ...typed, ...next });
  };
  const close = (): void => {
    reserve.reset();
    setTyped(EMPTY_FORM);
    setChosen(null);
    onClose();
  };
  return (
    <ActDialog
      isOpen={isOpen}
      onClose={close}
      title="Reserve a key"
      reason="none"
      actLabel="Reserve"
      isReady={problem === undefined && existing === undefined}
      act={{
        isPending: reserve.isPending,
        error: reservationFailure(reserve.error),
        run: () =>
          reserve.mutate(
            { key: [...key], datacenter: chosen ?? here },
            {
              onSuccess: ({ outcome }) => {
                if (outcome === 'existing') return;
                close();
                router.push(routes.reservation(key));
              },
            },
          ),
      }}
    >
      <Stack gap="sm">
        <KeyFields typed={typed} problem={problem} onChange={change} />
        <DatacenterSelect
          value={chosen ?? here}
          onChange={(next) => {
            reserve.reset();
            setChosen(next);
          }}
        />
        <Text size="sm">
          The home of the key is {chosen ?? here} from then on, for all callers in all datacenters.
          A reservation cannot be undone, but an operator can move the key.
        </Text>
        {existing === undefined ? null : (
          <Notice tone="info">
            It was reserved already. Its home is <span className="mono">{existing.datacenter}</span>
            : <Link href={routes.reservation(key)}>show it</Link>.
          </Notice>
        )}
      </Stack>
    </ActDialog>
  );
}

function keyOf({ kind, namespace, name, lines }: Typed): readonly string[] {
  return kind === 'key' ? [namespace.trim(), name.trim()] : lines.replace(/\n$/u, '').split('\n');
}

/** Why the key cannot be reserved as typed; undefined when it can. */
function problemOf({ kind }: Typed, key: readonly string[]): string | undefined {
  const problem = reservationKeyProblem(key);
  if (problem !== undefined) return problem;
  return kind === 'key' && keyNameOf(key) === undefined
    ? 'is not a namespace and a name: segments are joined by dots, and a name is not empty'
    : undefined;
}

function KeyFields({
  typed,
  problem,
  onChange,
}: {
  readonly typed: Typed;
  readonly problem: string | undefined;
  readonly onChange: (next: Partial<Typed>) => void;
}) {
  const isTyped = typed.kind === 'key' ? typed.name !== '' : typed.lines !== '';
  const error = isTyped && problem !== undefined ? `The key ${problem}.` : undefined;
  return (
    <>
      <SegmentedControl
        aria-label="Kind"
        fullWidth
        value={typed.kind}
        data={[
          { value: 'key', label: 'A key' },
          { value: 'list', label: 'Any list of strings' },
        ]}
        onChange={(value) => onChange({ kind: value === 'list' ? 'list' : 'key' })}
      />
      {typed.kind === 'key' ? (
        <>
          <TextInput
            label="Namespace"
            description="Segments joined by dots; empty for the root."
            value={typed.namespace}
            onChange={(event) => onChange({ namespace: event.currentTarget.value })}
          />
          <TextInput
            label="Name"
            required
            data-autofocus
            error={error}
            value={typed.name}
            onChange={(event) => onChange({ name: event.currentTarget.value })}
          />
        </>
      ) : (
        <Textarea
          label="Strings"
          description="One on each line, in order. No key of Leasehold has such a name: it is for your own use."
          required
          autosize
          minRows={2}
          error={error}
          value={typed.lines}
          onChange={(event) => onChange({ lines: event.currentTarget.value })}
        />
      )}
    </>
  );
}

/** The home: any datacenter that can be reached; not asked if there is only one. */
function DatacenterSelect({
  value,
  onChange,
}: {
  readonly value: string;
  readonly onChange: (datacenter: string) => void;
}) {
  const { items, here, isSeveral } = useDatacenters();
  if (!isSeveral) return null;
  return (
    <Select
      label="Datacenter"
      value={value}
      data={items.map(({ name, isReachable }) => ({
        value: name,
        label: `${name}${name === here ? ', this one' : ''}${isReachable ? '' : ', cannot be reached'}`,
        disabled: !isReachable,
      }))}
      onChange={(next) => {
        if (next !== null) onChange(next);
      }}
    />
  );
}
