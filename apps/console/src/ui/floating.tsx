import { Menu, Tooltip } from '@mantine/core';
import type { ReactNode } from 'react';
import { type Opener, OpenerAnchor, useOpenedOnceThere } from './lazy.tsx';

/** The parts of a menu: `menu.Item`, `menu.Label` and their like. */
export type MenuParts = typeof Menu;

/** How a menu looks. */
export interface MenuLooks {
  readonly position: 'bottom-start' | 'bottom-end';
  /** By default as wide as its entries. */
  readonly widthPx?: number;
}

/** The visible part of a `LazyMenu`, which loads it when it is needed. */
export function LoadedMenu({
  opener,
  position,
  widthPx,
  children,
}: MenuLooks & {
  readonly opener: Opener;
  readonly children: (menu: MenuParts) => ReactNode;
}) {
  const isOpen = useOpenedOnceThere(opener);
  return (
    <Menu
      id={opener.props.id}
      opened={isOpen}
      onChange={opener.setOpen}
      position={position}
      // Within the content of the page: a menu, unlike a dialog, must be in a landmark.
      portalProps={{ target: '#content' }}
      {...(widthPx === undefined ? {} : { width: widthPx })}
    >
      <Menu.Target>
        <OpenerAnchor opener={opener} />
      </Menu.Target>
      <Menu.Dropdown mah={360} style={{ overflowY: 'auto' }}>
        {children(Menu)}
      </Menu.Dropdown>
    </Menu>
  );
}

/** The visible part of a {@link Tip}, which loads it when a tip is needed. */
export function LoadedTip({
  id,
  target,
  isOpen,
  label,
}: {
  readonly id: string;
  readonly target: HTMLElement;
  readonly isOpen: boolean;
  readonly label: ReactNode;
}) {
  // Mantine gives the tip an id of its own.
  return <Tooltip target={target} opened={isOpen} label={<span id={id}>{label}</span>} />;
}
