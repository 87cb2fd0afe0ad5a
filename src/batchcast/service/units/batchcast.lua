-- batchcast for job_submit.lua: returns the suggestion for the user's last similar job within milliseconds, or nil.
--
--   package.path = "/etc/slurm/?.lua;" .. package.path
--   local there, batchcast = pcall(require, "batchcast")
--   function slurm_job_submit(job, partitions, uid)
--      local hint = there and batchcast.ask(job)
--      if hint and hint.limit then slurm.log_user("suggested limit of similar jobs: " .. hint.limit .. " min") end
--      return slurm.SUCCESS
--   end
--
-- ask() returns nil, or a table: limit (min), likely_start, by_90_start (epoch, s). A value is nil if it is unknown.
-- It raises no errors and waits at most `wait` seconds. After a failure it does not query the service for `rest`
-- seconds; the pause doubles with each failure, up to `longest`. slurmctld processes one submission at a time, and must
-- not wait for a service that hangs. Needs LuaSocket for slurmctld's Lua (Debian: lua-socket); without it, ask()
-- returns nil. No process is started.

local M = {
   path = "/run/batchcast/api.sock", wait = 0.05, rest = 30, longest = 600,
   calls = 0, failures = 0, waited = 0, last_failure = "", quiet = false,
}

local has_unix, unix = pcall(require, "socket.unix")
local has_clock, core = pcall(require, "socket.core")
local usable = has_unix and has_clock
if not usable then M.last_failure = "no LuaSocket: " .. tostring(has_unix and core or unix) end

local not_before, pause, busy = 0, 0, false

local function say(text)
   if slurm and slurm.log_info and not M.quiet then pcall(slurm.log_info, "batchcast: %s", text) end
end

local function open_socket()
   if type(unix) == "table" and unix.stream then return unix.stream() end
   return unix()
end

-- Send one GET request over the socket; return status and body, or raise the error. All steps together take at most
-- `wait` seconds.
local function get(target, from)
   local connection = assert(open_socket())
   local function step(name, ...)
      local left = M.wait - (core.gettime() - from)
      if left <= 0 then error("no answer within " .. M.wait .. " s", 0) end
      connection:settimeout(left, "t")
      local done, trouble = connection[name](connection, ...)
      if not done then error(name .. ": " .. tostring(trouble), 0) end
      return done
   end
   local fine, text = pcall(function()
      step("connect", M.path)
      step("send", "GET " .. target .. " HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n")
      return step("receive", "*a")
   end)
   pcall(connection.close, connection)
   if not fine then error(text, 0) end
   local status, body = text:match("^HTTP/%d%.%d (%d%d%d).-\r\n\r\n(.*)$")
   if not status then error("no HTTP answer", 0) end
   return tonumber(status), body
end

local function failed(now, why)
   M.failures, M.last_failure = M.failures + 1, tostring(why)
   pause = math.min(math.max(M.rest, 2 * pause), M.longest)
   not_before = now + pause
   say(M.last_failure .. "; not asked again for " .. pause .. " s")
end

local function quoted(value)
   return (tostring(value):gsub("[^%w%-._~]", function(c) return string.format("%%%02X", c:byte()) end))
end

local function number(value)  -- Slurm marks "not set" by a number just below 2^16, 2^32 or 2^64
   local n = tonumber(value)
   if n == nil or n <= 0 or n >= 4294967290 or (n >= 65533 and n <= 65535) then return nil end
   return n
end

local function target_of(job)
   local tasks, each = number(job.num_tasks), number(job.cpus_per_task)
   local given = {
      user = job.user_name, partition = job.partition, name = job.name, time = number(job.time_limit),
      ntasks = math.max(tasks and tasks * (each or 1) or 1, number(job.min_cpus) or 1),
   }
   local words = {}
   for name, value in pairs(given) do
      if value ~= nil and value ~= "" then words[#words + 1] = name .. "=" .. quoted(value) end
   end
   return "/v1/hint?" .. table.concat(words, "&")
end

local function field(body, name)
   return tonumber(body:match('"' .. name .. '"%s*:%s*([%d.eE+]+)'))
end

local function ask(job)
   local now = core.gettime()
   if now < not_before and not_before - now <= M.longest then return nil end
   M.calls = M.calls + 1
   local fine, status, body = pcall(get, target_of(job), now)
   M.waited = M.waited + (core.gettime() - now)
   if not fine or status >= 500 then
      failed(core.gettime(), fine and ("status " .. status) or status)
      return nil
   end
   pause, not_before = 0, 0
   if status ~= 200 then return nil end
   local limit = field(body, "limit_s")
   return {
      limit = limit and math.ceil(limit / 60), likely_start = field(body, "likely_start_s"),
      by_90_start = field(body, "by_90_start_s"),
   }
end

function M.ask(job)
   if not usable or busy then return nil end
   busy = true
   local fine, hint = pcall(ask, job)
   busy = false
   if not fine then
      M.last_failure = tostring(hint)
      return nil
   end
   return hint
end

return M
