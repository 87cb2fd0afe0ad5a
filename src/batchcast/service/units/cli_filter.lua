-- batchcast for cli_filter/lua: sbatch, salloc and srun say in one line what limit would be enough, and when jobs like
-- this one are likely to start. It changes nothing, and says nothing where the service does not answer in time.
--
-- In slurm.conf of the nodes where people submit: CliFilterPlugins=lua. Beside it: this file and batchcast.lua.

-- Slurm loads this file by its whole path, so the other one is found beside it, wherever slurm.conf is.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/") or "/etc/slurm"
package.path = folder .. "/?.lua;" .. package.path
local there, batchcast = pcall(require, "batchcast")
if there then batchcast.quiet = true end

-- Minutes of a --time: 90, 90:00, 1:30:00, 1-6, 1-6:30, 1-6:30:00; nil for none and for what is no time.
local function minutes(text)
   local days, rest = tostring(text or ""):match("^(%d+)%-(.+)$")
   local parts = {}
   for number in (rest or tostring(text or "")):gmatch("[^:]+") do
      if not number:match("^%d+$") then return nil end
      parts[#parts + 1] = tonumber(number)
   end
   if #parts == 0 or #parts > 3 then return nil end
   if days then return tonumber(days) * 1440 + parts[1] * 60 + (parts[2] or 0) + (parts[3] or 0) / 60 end
   if #parts == 3 then return parts[1] * 60 + parts[2] + parts[3] / 60 end
   return parts[1] + (parts[2] or 0) / 60
end

local function span(whole)
   if whole < 60 then return string.format("%d min", whole) end
   if whole % 60 == 0 then return string.format("%d h", whole / 60) end
   return string.format("%d h %d min", math.floor(whole / 60), whole % 60)
end

-- The line, or nil where there is nothing to say: no limit known, or none shorter than what is asked by a fifth.
local function line(options)
   local limit = minutes(options["time"])
   local hint = batchcast.ask({
      user_name = os.getenv("USER") or os.getenv("LOGNAME"), partition = options["partition"],
      name = options["job-name"], time_limit = limit and math.ceil(limit), num_tasks = options["ntasks"],
      cpus_per_task = options["cpus-per-task"],
   })
   if not hint then return nil end
   local words = {}
   if hint.limit and (not limit or hint.limit <= 0.8 * limit) then
      words[#words + 1] = string.format("jobs like this one are done within %s (--time=%d)", span(hint.limit), hint.limit)
   end
   if hint.likely_start and hint.likely_start > os.time() + 60 then
      local by = hint.by_90_start and os.date(", 9 of 10 by %a %H:%M", hint.by_90_start) or ""
      words[#words + 1] = os.date("likely start about %a %H:%M", hint.likely_start) .. by
   end
   return #words > 0 and table.concat(words, "; ") or nil
end

function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end

function slurm_cli_pre_submit(options, pack_offset)
   if there and not os.getenv("SLURM_JOB_ID") then  -- a step within a job asks for nothing new
      local fine, text = pcall(line, options)
      if fine and text then slurm.log_info("batchcast: %s", text) end
   end
   return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
