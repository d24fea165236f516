const { LockError, formatFence, mapRedisScriptResult } = require("syncguard/common");

const error = new LockError("AcquisitionTimeout", "late");
console.log("common", error.code, formatFence(7), mapRedisScriptResult(1));
