import dynamic from 'next/dynamic';

/** What a first visit does not show is loaded with its tab. */
export const JsonView = dynamic(() => import('~/ui/page.tsx').then((module) => module.JsonView));
export const EventsPanel = dynamic(() =>
  import('~/resources/timeline/events-panel.tsx').then((module) => module.EventsPanel),
);
