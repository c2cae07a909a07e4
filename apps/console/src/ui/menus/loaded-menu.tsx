import { Menu } from '@mantine/core';
import type { ReactNode } from 'react';
import { OpenerAnchor, useOpenedOnceThere, type Opener } from './use-opener.ts';

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
