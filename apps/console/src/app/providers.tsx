'use client';

import {
  createTheme,
  type CSSVariablesResolver,
  type MantineColorsTuple,
  MantineProvider,
} from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import dynamic from 'next/dynamic';
import { type ReactNode, useState } from 'react';
import { api } from '~/lib/api/api.ts';
import { createQueryClient } from '~/lib/api/query-client.ts';
import { pause } from '~/lib/live/live-state.ts';
import { signedOut } from '~/lib/session.tsx';

// Notifications appear only after an act: no page waits for their code.
const Notifications = dynamic(
  () => import('@mantine/notifications').then((module) => module.Notifications),
  { ssr: false },
);

/** What surrounds every page, the sign-in page too. */
export function Providers({ children }: { children: ReactNode }) {
  const [queryClient] = useState(() =>
    createQueryClient(api, { onSignedOut: signedOut.raise, isPaused: pause.isPaused }),
  );
  return (
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariablesResolver}
      defaultColorScheme="auto"
    >
      <QueryClientProvider client={queryClient}>
        {children}
        <Notifications position="bottom-right" limit={4} />
      </QueryClientProvider>
    </MantineProvider>
  );
}

/**
 * The console's own look: paper and ink with one petrol accent; other colours have a meaning. Every
 * pair of text and background below keeps a contrast of 4.5:1 in both schemes.
 */
const petrol: MantineColorsTuple = [
  '#e6f4f3',
  '#cfe8e6',
  '#a3d2ce',
  '#72b9b4',
  '#459f9a',
  '#238782',
  '#0f716d',
  '#0b5d5a',
  '#084a48',
  '#053836',
];
const ink: MantineColorsTuple = [
  '#d5d9de',
  '#b3bac3',
  '#8f99a6',
  '#75808e',
  '#4b5563',
  '#38414d',
  '#262d37',
  '#1b2129',
  '#14191f',
  '#0d1116',
];

const theme = createTheme({
  primaryColor: 'petrol',
  // White text on either shade keeps a contrast of 4.5:1.
  primaryShade: { light: 7, dark: 6 },
  colors: { petrol, dark: ink },
  autoContrast: true,
  luminanceThreshold: 0.35,
  fontFamily: 'var(--font-sans)',
  fontFamilyMonospace: 'var(--font-mono)',
  headings: { fontFamily: 'var(--font-sans)', fontWeight: '600' },
  fontSizes: { xs: '0.75rem', sm: '0.8125rem', md: '0.875rem', lg: '1rem', xl: '1.125rem' },
  defaultRadius: 4,
  spacing: { xs: '0.5rem', sm: '0.75rem', md: '1rem', lg: '1.5rem', xl: '2rem' },
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    Button: { defaultProps: { size: 'xs' } },
    ActionIcon: { defaultProps: { variant: 'subtle', color: 'gray' } },
    // Room for the ring around a focused input.
    InputWrapper: { styles: { label: { marginBottom: 4 } } },
    TextInput: { defaultProps: { size: 'xs' } },
    Textarea: { defaultProps: { size: 'xs' } },
    PasswordInput: { defaultProps: { size: 'xs' } },
    Select: { defaultProps: { size: 'xs', allowDeselect: false } },
    SegmentedControl: { defaultProps: { size: 'xs' } },
    Tooltip: { defaultProps: { openDelay: 250, withArrow: true, multiline: true, maw: 320 } },
    // Its placeholder for the first focus is an element that a menu must not contain.
    Menu: { defaultProps: { withInitialFocusPlaceholder: false } },
    Modal: {
      defaultProps: {
        centered: true,
        overlayProps: { backgroundOpacity: 0.45 },
        closeButtonProps: { 'aria-label': 'Close' },
      },
    },
    Notification: {
      defaultProps: { closeButtonProps: { 'aria-label': 'Close' } },
      styles: { description: { color: 'var(--mantine-color-dimmed)' } },
    },
    // A page has one banner, which is not the header of a dialog.
    ModalHeader: { defaultProps: { role: 'presentation' } },
  },
});

/** Meanings as variables: `--tone-<tone>` for text and marks, `-soft` for backgrounds. */
const cssVariablesResolver: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-body': '#fbfaf7',
    '--mantine-color-dimmed': '#5b6470',
    '--mantine-color-error': '#a92a2a',
    '--mantine-color-placeholder': '#6b7480',
    '--surface': '#ffffff',
    '--surface-sunken': '#f3f1ec',
    '--line': '#e2ded5',
    '--line-strong': '#c9c3b6',
    '--nav': '#12302f',
    '--nav-text': '#cfe0de',
    '--nav-strong': '#ffffff',
    '--nav-active': '#1f4a48',
    '--tone-good': '#0b6b50',
    '--tone-good-soft': '#dff1ea',
    '--tone-warn': '#8a5200',
    '--tone-warn-soft': '#fbecd2',
    '--tone-bad': '#a92a2a',
    '--tone-bad-soft': '#fae3e0',
    '--tone-info': '#1d5a9c',
    '--tone-info-soft': '#e1ecf8',
    '--tone-calm': '#545d69',
    '--tone-calm-soft': '#eceae4',
  },
  dark: {
    '--mantine-color-body': '#0f1418',
    '--mantine-color-text': '#dde2e6',
    '--mantine-color-anchor': petrol[3],
    '--mantine-color-dimmed': '#96a1ad',
    '--mantine-color-error': '#f28b82',
    '--mantine-color-placeholder': '#8792a0',
    '--surface': '#151b21',
    '--surface-sunken': '#0b0f13',
    '--line': '#263039',
    '--line-strong': '#3a4652',
    '--nav': '#0b1113',
    '--nav-text': '#a9bab9',
    '--nav-strong': '#f2f7f6',
    '--nav-active': '#17302f',
    '--tone-good': '#5fcca3',
    '--tone-good-soft': '#12352a',
    '--tone-warn': '#eab25a',
    '--tone-warn-soft': '#3a2a10',
    '--tone-bad': '#f28b82',
    '--tone-bad-soft': '#40191a',
    '--tone-info': '#80b7f0',
    '--tone-info-soft': '#14293f',
    '--tone-calm': '#a3adb8',
    '--tone-calm-soft': '#222b33',
  },
});
