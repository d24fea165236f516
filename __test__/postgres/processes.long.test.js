// The tests of processes.test.js at full size.

import "./processes.test.js";
