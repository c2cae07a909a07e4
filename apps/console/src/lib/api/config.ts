import {
  controllerUrlsOf,
  createControllerFetch,
  type ControllerFetch,
} from '@leasehold/service-kit/controllers';

const URL_UNLESS_SAID = 'http://127.0.0.1:4600';

let controllerFetch: ControllerFetch | undefined;

/**
 * `fetch` of a path of the controllers, whose addresses the console's server checked when it started.
 * One for the process: it remembers which of them answers.
 */
export function fetchFromController(path: string, init: RequestInit): Promise<Response> {
  controllerFetch ??= createControllerFetch(
    controllerUrlsOf(process.env['LEASEHOLD_URL'] ?? URL_UNLESS_SAID),
  );
  return controllerFetch(path, init);
}
