// Runs the tests of sqlite.test.js at full size.

import "./sqlite.test.js";
