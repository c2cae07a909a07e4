'use client';

import type { Menu } from '@mantine/core';
import dynamic from 'next/dynamic';
import type { ReactElement, ReactNode } from 'react';
import { useOpener, type OpenerProps } from './use-opener.ts';

const LoadedMenu = dynamic(() => import('./loaded-menu.tsx').then((module) => module.LoadedMenu), {
  ssr: false,
});

/** The parts of a menu: `menu.Item`, `menu.Label` and their like. */
export type MenuParts = typeof Menu;

/** How a menu looks. */
export interface MenuLooks {
  readonly position: 'bottom-start' | 'bottom-end';
  /** As wide as its entries unless said. */
  readonly widthPx?: number;
}

/**
 * A menu below a button. What draws it is loaded when somebody gets near the button; click, Enter,
 * Space and the arrow down open it, and the focus returns to the button.
 */
export function LazyMenu({
  button,
  children,
  ...looks
}: MenuLooks & {
  /** The button, with what makes it open the menu. */
  readonly button: (props: OpenerProps) => ReactElement;
  readonly children: (menu: MenuParts) => ReactNode;
}) {
  const opener = useOpener('menu');
  return (
    <>
      {button(opener.props)}
      {opener.isWanted ? (
        <LoadedMenu {...looks} opener={opener}>
          {children}
        </LoadedMenu>
      ) : null}
    </>
  );
}
