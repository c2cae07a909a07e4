import {
  IconActivity,
  IconBox,
  IconHistory,
  IconKey,
  IconLayoutDashboard,
  IconLockAccess,
  IconRoute,
  IconServer,
  IconStack2,
  IconUsers,
  type Icon,
} from '@tabler/icons-react';
import { routes } from '~/lib/routes.ts';

interface NavItem {
  readonly label: string;
  readonly href: string;
  readonly icon: Icon;
  /** The item is the present one on all pages below this address. */
  readonly within: string;
}

export const NAV_GROUPS: readonly { readonly label: string; readonly items: readonly NavItem[] }[] =
  [
    {
      label: 'Now',
      items: [
        { label: 'Overview', href: routes.overview, icon: IconLayoutDashboard, within: '/' },
        { label: 'Keys', href: routes.keys(), icon: IconKey, within: '/keys' },
        { label: 'Leases', href: routes.leases(), icon: IconStack2, within: '/leases' },
        {
          label: 'Environments',
          href: routes.environments(),
          icon: IconLockAccess,
          within: '/environments',
        },
        {
          label: 'Reservations',
          href: routes.reservations(),
          icon: IconRoute,
          within: '/reservations',
        },
      ],
    },
    {
      label: 'Fleet',
      items: [
        { label: 'Drones', href: routes.drones(), icon: IconServer, within: '/drones' },
        { label: 'Backends', href: routes.backends(), icon: IconBox, within: '/backends' },
      ],
    },
    {
      label: 'Record',
      items: [
        { label: 'Events', href: routes.events(), icon: IconActivity, within: '/events' },
        { label: 'Audit', href: routes.audit(), icon: IconHistory, within: '/audit' },
        { label: 'Access', href: routes.access(), icon: IconUsers, within: '/access' },
      ],
    },
  ];

/** Whether a page belongs to an item. */
export function isWithin(pathname: string, item: NavItem): boolean {
  if (item.within === '/') return pathname === '/';
  return pathname === item.within || pathname.startsWith(`${item.within}/`);
}
