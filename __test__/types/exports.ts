// The declarations and the code have the same names, and each name the type it is declared with.

import * as code from "../../js/index.js";
import * as commonCode from "../../js/common.js";
import * as firestoreCode from "../../js/firestore.js";
import * as memoryCode from "../../js/memory.js";
import * as nestjsCode from "../../js/nestjs.js";
import * as nodeCronCode from "../../js/node-cron.js";
import * as opentelemetryCode from "../../js/opentelemetry.js";
import * as postgresCode from "../../js/postgres.js";
import * as redisCode from "../../js/redis.js";
import * as sqliteCode from "../../js/sqlite.js";
import * as testingCode from "../../js/testing.js";
import * as webLocksCode from "../../js/web-locks.js";
import type * as declared from "../../index.js";
import type * as commonDeclared from "../../types/common.js";
import type * as firestoreDeclared from "../../types/firestore.js";
import type * as memoryDeclared from "../../types/memory.js";
import type * as nestjsDeclared from "../../types/nestjs.js";
import type * as nodeCronDeclared from "../../types/node-cron.js";
import type * as opentelemetryDeclared from "../../types/opentelemetry.js";
import type * as postgresDeclared from "../../types/postgres.js";
import type * as redisDeclared from "../../types/redis.js";
import type * as sqliteDeclared from "../../types/sqlite.js";
import type * as testingDeclared from "../../types/testing.js";
import type * as webLocksDeclared from "../../types/web-locks.js";

// A unique symbol equals itself only.
type Declared<T> = Omit<T, "FAILURE_REASON"> & {
  [Name in keyof T & "FAILURE_REASON"]: symbol;
};
code satisfies Declared<typeof declared>;
commonCode satisfies Declared<typeof commonDeclared>;
firestoreCode satisfies Declared<typeof firestoreDeclared>;
memoryCode satisfies Declared<typeof memoryDeclared>;
nestjsCode satisfies Names<typeof nestjsDeclared>;
nodeCronCode satisfies Declared<typeof nodeCronDeclared>;
opentelemetryCode satisfies Declared<typeof opentelemetryDeclared>;
postgresCode satisfies Declared<typeof postgresDeclared>;
redisCode satisfies Declared<typeof redisDeclared>;
sqliteCode satisfies Declared<typeof sqliteDeclared>;
testingCode satisfies Declared<typeof testingDeclared>;
webLocksCode satisfies Names<typeof webLocksDeclared>;

({}) as typeof declared satisfies Names<typeof code>;
({}) as typeof commonDeclared satisfies Names<typeof commonCode>;
({}) as typeof firestoreDeclared satisfies Names<typeof firestoreCode>;
({}) as typeof memoryDeclared satisfies Names<typeof memoryCode>;
({}) as typeof nestjsDeclared satisfies Names<typeof nestjsCode>;
({}) as typeof nodeCronDeclared satisfies Names<typeof nodeCronCode>;
({}) as typeof postgresDeclared satisfies Names<typeof postgresCode>;
({}) as typeof redisDeclared satisfies Names<typeof redisCode>;
({}) as typeof sqliteDeclared satisfies Names<typeof sqliteCode>;
({}) as typeof testingDeclared satisfies Names<typeof testingCode>;
({}) as typeof webLocksDeclared satisfies Names<typeof webLocksCode>;

type Names<T> = { [Name in keyof T]: unknown };
