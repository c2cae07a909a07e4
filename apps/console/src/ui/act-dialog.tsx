import { Button, Group, Modal, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';
import { printableText } from '@leasehold/keys-core';
import type { ApiError } from '~/lib/api/api.ts';
import { countText } from '~/lib/format.ts';
import { pause } from '~/lib/live/live-state.ts';
import { signedOut } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { ActFailure } from './states.tsx';
import { VisibleText } from './text.tsx';
import classes from './act-dialog.module.css';

/** The API's limit, in bytes of UTF-8. */
const REASON_BYTES_MAX = 1_024;

/** What every dialog is told by the page that opens it. */
export interface DialogProps {
  readonly isOpen: boolean;
  readonly onClose: () => void;
}

interface ActDialogProps extends DialogProps {
  readonly title: string;
  /** Who is concerned, what will happen, by when at the latest. */
  readonly children: ReactNode;
  /** Whether a reason is asked for; an `optional` one may be left out. */
  readonly reason: 'required' | 'optional' | 'none';
  /** What has to be typed before the act: a name, or a count. */
  readonly typed?: { readonly what: string; readonly text: string } | undefined;
  readonly actLabel: string;
  readonly isDangerous?: boolean;
  /** Whether everything that the dialog itself asks for is there. */
  readonly isReady?: boolean;
  readonly act: {
    readonly isPending: boolean;
    readonly error: ApiError | null;
    readonly run: (reason: string | undefined) => void;
  };
}

/**
 * A dialog that confirms an act: its consequence, a reason, and for a dangerous one a name typed by
 * hand. The page behind it pauses meanwhile; a refusal is shown here, with what was typed.
 */
export function ActDialog(props: ActDialogProps) {
  const { isOpen, onClose, typed, act, isReady = true } = props;
  const [reason, setReason] = useState('');
  const [typedText, setTypedText] = useState('');
  const isSignedOut = useSignal(signedOut);
  useEffect(() => {
    if (!isOpen) return undefined;
    setReason('');
    setTypedText('');
    return pause.hold();
  }, [isOpen]);

  const reasonBytes = new TextEncoder().encode(reason.trim()).length;
  const isReasonMissing = props.reason === 'required' && reasonBytes === 0;
  const isReasonLong = reasonBytes > REASON_BYTES_MAX;
  const isTyped = typed === undefined || isTypedRight(typedText, typed.text);
  const mayAct = !isReasonMissing && !isReasonLong && isTyped && isReady && !act.isPending;
  // Closed while the call is under way, its answer would be lost.
  const close = (): void => {
    if (!act.isPending) onClose();
  };
  return (
    <Modal
      opened={isOpen}
      onClose={close}
      title={props.title}
      size="lg"
      // Escape in the sign-in over it must not discard what was typed here.
      closeOnEscape={!isSignedOut}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (mayAct) act.run(reason.trim() === '' ? undefined : reason.trim());
        }}
      >
        <Stack gap="sm">
          <Text size="sm" component="div">
            {props.children}
          </Text>
          {props.reason === 'none' ? null : (
            <Textarea
              label="Reason"
              description="Recorded in the audit, with your name and address."
              required={props.reason === 'required'}
              data-autofocus
              autosize
              minRows={2}
              value={reason}
              error={isReasonLong ? `At most ${String(REASON_BYTES_MAX)} bytes.` : undefined}
              onChange={(event) => setReason(event.currentTarget.value)}
            />
          )}
          {typed === undefined ? null : (
            <TextInput
              label={
                <>
                  To confirm, type {typed.what}:{' '}
                  <span className={classes['typed']}>
                    <VisibleText>{typed.text}</VisibleText>
                  </span>
                </>
              }
              required
              autoComplete="off"
              spellCheck={false}
              value={typedText}
              error={typedMismatch(typedText, typed.text)}
              onChange={(event) => setTypedText(event.currentTarget.value)}
            />
          )}
          <ActFailure error={act.error} />
          <Group justify="flex-end" gap="xs">
            <Button variant="default" disabled={act.isPending} onClick={close}>
              Cancel
            </Button>
            <Button
              type="submit"
              {...(props.isDangerous === true ? { color: 'red.8' } : {})}
              disabled={!mayAct}
              loading={act.isPending}
            >
              {props.actLabel}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

// Why a typed confirmation does not match, in words.

/** Whether this is what has to be typed: the text itself, or as it is shown where it has unseen characters. */
export function isTypedRight(typed: string, wanted: string): boolean {
  // A name may begin or end with a space of its own.
  return [typed, typed.trim()].some((text) => text === wanted || text === printableText(wanted));
}

/** Why the typed text does not match; undefined when it does, and before anything was typed. */
export function typedMismatch(typed: string, wanted: string): string | undefined {
  if (typed.trim() === '' || isTypedRight(typed, wanted)) return undefined;
  const shown = printableText(wanted);
  const text = printableText(typed.trim());
  if (/^\d+$/u.test(wanted)) return `That is not ${wanted}.`;
  if (shown.startsWith(text)) {
    return `Not complete: ${countText(charsOf(shown).length - charsOf(text).length, 'more character')} to type.`;
  }
  if (shown.endsWith(`/${text}`)) return 'The namespace is missing: type the whole of it.';
  if (text.startsWith(shown)) return `Too long: “${text.slice(shown.length)}” is not part of it.`;
  if (text.normalize() === shown.normalize()) {
    return 'It looks the same, but its accents are encoded in another way: copy it from above.';
  }
  const place = firstDifference(text, shown);
  const isCaseOnly = text.toLowerCase() === shown.toLowerCase();
  const why = isCaseOnly ? 'Upper and lower case differ' : 'It differs';
  return `${why} at character ${String(place + 1)}: “${charsOf(text)[place] ?? ''}” should be “${charsOf(shown)[place] ?? ''}”.`;
}

function firstDifference(one: string, other: string): number {
  const chars = charsOf(one);
  const others = charsOf(other);
  const place = chars.findIndex((char, index) => char !== others[index]);
  return place === -1 ? chars.length : place;
}

function charsOf(text: string): string[] {
  return Array.from(text);
}
