-- Runs several calls of the functions above, one after the other. Starting a script costs the server
-- as much as one of these calls.
-- KEYS: those of all calls
-- ARGV: for each call the number of its keys, or `share`, then its arguments
-- Returns the answer to each call. A call that fails has done nothing, and does not affect the others.

-- Returns an error as an answer. In Redis before version 7 the error begins with the place in the script.
local function failed(cause)
  local text = tostring(type(cause) == 'table' and cause.err or cause)
  return {err = string.find(text, '^%u+ ') and text or 'ERR ' .. text}
end

-- Global names are slower.
local KEYS, ARGV = KEYS, ARGV
local answers, key, arg = {}, 0, 1
while ARGV[arg] do
  local keys, ok, answer = ARGV[arg]
  if keys == '3' then
    ok, answer = pcall(acquire, KEYS[key + 1], KEYS[key + 2], KEYS[key + 3],
      ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 5], ARGV[arg + 6])
    key, arg = key + 3, arg + 7
  elseif keys == 'share' then
    ok, answer = pcall(share, KEYS[key + 1], KEYS[key + 2], KEYS[key + 3],
      ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 5], ARGV[arg + 6],
      tonumber(ARGV[arg + 7]), ARGV[arg + 8])
    key, arg = key + 3, arg + 9
  else
    ok, answer = pcall(release, KEYS[key + 1], ARGV[arg + 1], keys == '2' and KEYS[key + 2])
    key, arg = key + keys, arg + 3
  end
  answers[#answers + 1] = ok and answer or failed(answer)
end
return answers
