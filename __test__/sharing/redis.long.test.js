// Runs the tests of redis.test.js at full size.

import "./redis.test.js";
