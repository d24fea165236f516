// What the code in the documents uses without showing it.

import type { ManagedLockBackend } from "syncguard";

declare global {
  /** The base of a class of which a page shows only some members. */
  class Anything {
    [name: string]: any;
  }
  /** A backend that a page has created before. */
  const backend: ManagedLockBackend;
  const url: string;

  function chargeCard(orderId: string, options?: object): Promise<void>;
  function writeReport(options?: object): Promise<void>;
  function sendReport(options?: object): Promise<void>;
  function sendNewsletter(options?: object): Promise<void>;
  function rebuildIndex(options?: object): Promise<void>;
  function callSlowApi(options?: object): Promise<void>;
  function processJobs(options?: object): Promise<void>;
  function doWork(options?: object): Promise<void>;
  function nextBatch(): Promise<string[] | undefined>;
  function handle(item: unknown, options?: object): Promise<void>;
}
