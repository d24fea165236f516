-- Several calls of the scripts above, one after the other: a script costs the server as much as what
-- one of them does.
-- KEYS, ARGV: those of each call; before its arguments how many keys it has
-- Returns what each of them returned. One that failed has done nothing, and the others are as if it
-- had not been there.

-- Redis before version 7 says where in the script it was, and only then what.
local function failed(cause)
  local text = tostring(type(cause) == 'table' and cause.err or cause)
  return {err = string.find(text, '^%u+ ') and text or 'ERR ' .. text}
end

-- Looking up what is global takes longer.
local KEYS, ARGV = KEYS, ARGV
local answers, key, arg = {}, 0, 1
while ARGV[arg] do
  local keys, ok, answer = ARGV[arg]
  if keys == '3' then
    ok, answer = pcall(acquire, KEYS[key + 1], KEYS[key + 2], KEYS[key + 3],
      ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3])
    key, arg = key + 3, arg + 4
  else
    ok, answer = pcall(release, KEYS[key + 1], ARGV[arg + 1], keys == '2' and KEYS[key + 2])
    key, arg = key + keys, arg + 2
  end
  answers[#answers + 1] = ok and answer or failed(answer)
end
return answers
