// Runs the tests of node-cron.test.js at full size.

import "./node-cron.test.js";
