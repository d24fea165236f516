// What the code in the documents uses without showing it.

import type { ManagedLockBackend } from "syncguard";

declare global {
  /** A backend that a page has created before. */
  const backend: ManagedLockBackend;
  function getAuthToken(): Promise<string>;

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
