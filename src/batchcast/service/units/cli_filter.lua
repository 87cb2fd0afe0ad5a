-- batchcast for cli_filter/lua: sbatch, salloc and srun print one line with the time limit that similar jobs need, and
-- with the likely start. The plugin does not change the job. If the service does not answer in time, it prints no line.
--
-- Set CliFilterPlugins=lua in slurm.conf of the nodes where users submit, and copy this file and batchcast.lua beside
-- slurm.conf.

-- Slurm loads this file by its full path, so batchcast.lua is found in the same directory, wherever slurm.conf is.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/") or "/etc/slurm"
package.path = folder .. "/?.lua;" .. package.path
local there, batchcast = pcall(require, "batchcast")
if there then batchcast.quiet = true end

-- Minutes of a --time: 90, 90:00, 1:30:00, 1-6, 1-6:30, 1-6:30:00; nil if the text is empty or not a time.
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

-- Return the line; nil if the limit and the start are unknown, or if the known limit is not at least a fifth shorter
-- than the requested limit.
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
      words[#words + 1] = string.format("similar jobs end within %s (--time=%d)", span(hint.limit), hint.limit)
   end
   if hint.likely_start and hint.likely_start > os.time() + 60 then
      local by = hint.by_90_start and os.date(", 9 of 10 by %a %H:%M", hint.by_90_start) or ""
      words[#words + 1] = os.date("likely start about %a %H:%M", hint.likely_start) .. by
   end
   return #words > 0 and table.concat(words, "; ") or nil
end

function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end

function slurm_cli_pre_submit(options, pack_offset)
   if there and not os.getenv("SLURM_JOB_ID") then  -- a step inside a job is not a new request
      local fine, text = pcall(line, options)
      if fine and text then slurm.log_info("batchcast: %s", text) end
   end
   return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
