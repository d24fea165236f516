// The declarations and the code have the same names, and each name the type it is declared with.

import * as code from "../../js/index.js";
import * as commonCode from "../../js/common.js";
import * as memoryCode from "../../js/memory.js";
import type * as declared from "syncguard";
import type * as commonDeclared from "syncguard/common";
import type * as memoryDeclared from "syncguard/memory";

// A unique symbol equals itself only.
type Declared<T, Not extends string = never> = Omit<T, "FAILURE_REASON" | Not> & {
  [Name in keyof T & "FAILURE_REASON"]: symbol;
};
code satisfies Declared<typeof declared>;
commonCode satisfies Declared<typeof commonDeclared, "lock" | "createBackend" | "createLock">;
memoryCode satisfies Declared<typeof memoryDeclared>;

({}) as typeof declared satisfies Names<typeof code>;
({}) as typeof commonDeclared satisfies Names<typeof commonCode>;
({}) as typeof memoryDeclared satisfies Names<typeof memoryCode>;

type Names<T> = { [Name in keyof T]: unknown };
