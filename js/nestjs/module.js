// The module that an application imports.

import { Module } from "@nestjs/common";
import { explain, invalidArgument } from "../base/errors.js";
import { unknownOption } from "../base/options.js";
import { isBackend } from "../base/recognize.js";
import { createBackend } from "../targets/open.js";
import { isCount, missingTarget } from "../targets/shared.js";
import { SyncGuardHealthIndicator } from "./health.js";
import { LockService } from "./service.js";

/** @import { DynamicModule } from "@nestjs/common" */
/** @import { SyncGuardAsyncOptions, SyncGuardOptions } from "../../types/nestjs.js" */

const OPTIONS = ["url", "options", "backend", "closeTimeoutMs"];
const DEFAULTS = "SYNCGUARD_URL, or else this host's SQLite file";

export class SyncGuardModule {
  /**
   * @param {[target?: string | URL | SyncGuardOptions]} args
   * @returns {DynamicModule}
   */
  static forRoot(...args) {
    const options = args.length === 0 ? {} : readTarget(args[0]);
    return dynamicModule({ useFactory: () => open(options) });
  }

  /**
   * @param {SyncGuardAsyncOptions} options
   * @returns {DynamicModule}
   */
  static forRootAsync({ imports = [], inject = [], useFactory }) {
    if (typeof useFactory !== "function") {
      throw invalidArgument(
        "SyncGuardModule.forRootAsync() got no useFactory. Pass a function that returns a URL or options",
      );
    }
    return dynamicModule({
      imports,
      inject,
      useFactory: async (...args) => open(readTarget(await useFactory(...args))),
    });
  }
}

Module({})(SyncGuardModule);

/**
 * @param {{ imports?: any[], inject?: any[], useFactory: (...args: any[]) => any }} service
 * @returns {DynamicModule}
 */
function dynamicModule({ imports = [], inject = [], useFactory }) {
  return {
    module: SyncGuardModule,
    global: true,
    imports,
    providers: [
      { provide: LockService, inject, useFactory },
      {
        provide: SyncGuardHealthIndicator,
        inject: [LockService],
        useFactory: (/** @type {LockService} */ locks) => new SyncGuardHealthIndicator(locks),
      },
    ],
    exports: [LockService, SyncGuardHealthIndicator],
  };
}

/**
 * Returns the options. Throws if they are wrong, so that the error has the stack of the caller.
 * @param {any} target
 * @returns {SyncGuardOptions}
 */
function readTarget(target) {
  if (target === undefined || target === null) throw missing(`target is ${target}`);
  if (typeof target === "string" || target instanceof URL) return { url: target };
  if (typeof target !== "object" || isBackend(target)) {
    const hint = isBackend(target) ? " but a backend: pass it as { backend }" : explain(target);
    throw invalidArgument(`SyncGuardModule got neither a URL nor options${hint}`);
  }
  for (const name of Object.keys(target)) {
    if (!OPTIONS.includes(name)) throw unknownOption(name, OPTIONS);
  }
  for (const name of ["url", "backend"]) {
    if (name in target && target[name] == null) throw missing(`option ${name} is ${target[name]}`);
  }
  if (target.url !== undefined && target.backend !== undefined) {
    throw invalidArgument("SyncGuardModule got both url and backend: pass one of them");
  }
  if (target.backend !== undefined && !isBackend(target.backend)) {
    throw invalidArgument(`The option backend must be a backend${explain(target.backend)}`);
  }
  if (target.closeTimeoutMs !== undefined && !isCount(target.closeTimeoutMs)) {
    throw invalidArgument("closeTimeoutMs must be a positive integer (milliseconds)");
  }
  return target;
}

/** @param {string} what */
function missing(what) {
  return missingTarget(`SyncGuardModule's ${what}`, { defaults: DEFAULTS });
}

/** @param {SyncGuardOptions} options */
function open({ url, options, backend, closeTimeoutMs }) {
  const opened = backend ?? (url === undefined ? createBackend() : createBackend(url, options));
  return new LockService(opened, closeTimeoutMs);
}
