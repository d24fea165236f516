// Runs the tests of long-run.test.js at full size.

import "./long-run.test.js";
