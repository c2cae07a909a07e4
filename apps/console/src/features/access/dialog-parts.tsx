import type { Role } from '@leasehold/keys-core';
import {
  Button,
  Code,
  CopyButton,
  Group,
  Modal,
  Select,
  Stack,
  Text,
  TextInput,
} from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import { type ReactNode, useEffect, useState } from 'react';
import { ROLE_LABELS, ROLE_TEXTS } from '~/lib/auth.ts';
import { pause } from '~/lib/live/live-state.ts';
import { signedOut } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import type { DialogProps } from '~/ui/act-dialog.tsx';

/** What the form of a {@link MadeOnceDialog} reports. */
export interface MadeOnceForm<Made> {
  readonly onMade: (made: Made) => void;
  /** Whether the call is under way: the dialog stays open until its answer is there. */
  readonly onPending: (isPending: boolean) => void;
}

/** A form that makes something secret, and then the only view of what was made. */
export function MadeOnceDialog<Made>({
  isOpen,
  onClose,
  title,
  shown,
  children,
}: DialogProps & {
  readonly title: { readonly before: string; readonly made: (made: Made) => string };
  readonly shown: (made: Made) => ReactNode;
  /** The form; it reports what it made. */
  readonly children: (form: MadeOnceForm<Made>) => ReactNode;
}) {
  const [made, setMade] = useState<Made>();
  const [isPending, setPending] = useState(false);
  const isSignedOut = useSignal(signedOut);
  useEffect(() => {
    if (!isOpen) return undefined;
    setMade(undefined);
    setPending(false);
    return pause.hold();
  }, [isOpen]);
  const isShown = made !== undefined;
  return (
    <Modal
      opened={isOpen}
      onClose={() => {
        // A dialog that is closed now would never show what is being made.
        if (isShown || !isPending) onClose();
      }}
      size="lg"
      title={isShown ? title.made(made) : title.before}
      // A slip must not close the only view of a secret.
      closeOnClickOutside={!isShown}
      closeOnEscape={!isShown && !isSignedOut}
      withCloseButton={!isShown}
    >
      {isShown ? shown(made) : children({ onMade: setMade, onPending: setPending })}
    </Modal>
  );
}

/** Something that is never shown again, with the button that copies it. */
export function ShownOnce({
  label,
  value,
  children,
}: {
  readonly label: string;
  readonly value: string;
  readonly children?: ReactNode;
}) {
  return (
    <Stack gap="xs">
      <Group align="flex-end" gap="xs" wrap="nowrap">
        <TextInput
          label={label}
          readOnly
          value={value}
          style={{ flex: 1 }}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
          data-autofocus
          onFocus={(event) => event.currentTarget.select()}
        />
        <Copy value={value} label={`Copy the ${label.toLowerCase()}`} />
      </Group>
      {children}
    </Stack>
  );
}

/** A command that can be run as it is. */
export function Example({ title, command }: { readonly title: string; readonly command: string }) {
  return (
    <div>
      <Group justify="space-between" align="center" mb={4}>
        <Text size="xs" c="dimmed">
          {title}
        </Text>
        <Copy value={command} label="Copy the example" isSmall />
      </Group>
      <Code block tabIndex={0} role="region" aria-label={title} style={{ whiteSpace: 'pre-wrap' }}>
        {command}
      </Code>
    </div>
  );
}

function Copy({
  value,
  label,
  isSmall = false,
}: {
  readonly value: string;
  readonly label: string;
  readonly isSmall?: boolean;
}) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Button
          variant="default"
          size={isSmall ? 'compact-xs' : 'xs'}
          aria-label={label}
          leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          onClick={copy}
        >
          {copied ? 'Copied' : 'Copy'}
        </Button>
      )}
    </CopyButton>
  );
}

/** A choice among these roles, each with what it may do. */
export function RoleSelect<Known extends Role>({
  roles,
  value,
  onChange,
}: {
  readonly roles: readonly Known[];
  readonly value: Known;
  readonly onChange: (role: Known) => void;
}) {
  return (
    <Select
      label="Role"
      description={ROLE_TEXTS[value]}
      value={value}
      data={roles.map((role) => ({ value: role, label: ROLE_LABELS[role] }))}
      onChange={(chosen) => onChange(roles.find((role) => role === chosen) ?? value)}
    />
  );
}
