package launch

import (
	"fmt"
	"strconv"
	"strings"

	"gobtl/launch/pmi"
)

// Launcher is the kind of launcher that has started the job.
type Launcher string

// The constants below are the kinds of launchers.
const (
	None    Launcher = "none"
	PMI1    Launcher = "PMI-1"
	OpenMPI Launcher = "Open MPI"
)

type environment map[string]string

func readEnvironment(environ []string) environment {
	e := environment{}
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok {
			e[name] = value
		}
	}
	return e
}

func (e environment) has(name string) bool { return e[name] != "" }

func (e environment) number(name string, least, most int) (int, error) {
	n, err := strconv.Atoi(e[name])
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%w: %s=%.40q, want %d to %d", ErrEnvironment, name, e[name], least, most)
	}
	return n, nil
}

func (e environment) place(rankName, sizeName string) (rank, size int, err error) {
	if size, err = e.number(sizeName, 1, pmi.RanksMax); err != nil {
		return 0, 0, err
	}
	rank, err = e.number(rankName, 0, size-1)
	return rank, size, err
}

// The method "launcher" determines which launcher has started this process. If the environment has
// variables of both PMI-1 and Open MPI, the method "launcher" returns PMI1, because all child
// processes of an Open MPI rank inherit the variables of Open MPI.
func (e environment) launcher() (Launcher, error) {
	const ompi = "OMPI_COMM_WORLD_RANK"
	hasPMI := e.has("PMI_FD") || e.has("PMI_PORT")
	switch want := e[LauncherVariable]; {
	case want == "none":
		return None, nil
	case want == "pmi" && hasPMI:
		return PMI1, nil
	case want == "ompi" && e.has(ompi):
		return OpenMPI, nil
	case want == "pmi" || want == "ompi":
		return "", fmt.Errorf("%w: %s=%s, and no such launcher", ErrEnvironment, LauncherVariable, want)
	case want != "":
		return "", fmt.Errorf("%w: %s=%.40q, want pmi, ompi or none", ErrEnvironment, LauncherVariable,
			want)
	case hasPMI:
		return PMI1, nil
	case e.has(ompi):
		return OpenMPI, nil
	}
	return None, e.alone()
}

// The method "alone" checks that this process is the only process of its job. The method "alone"
// returns ErrNoPMI if a PMIx launcher, or Slurm with several tasks, has started this process
// without PMI-1, and otherwise nil.
func (e environment) alone() error {
	advice := ", or set " + LauncherVariable + "=none if each process shall be a job of its own"
	tasks, err := strconv.Atoi(e["SLURM_STEP_NUM_TASKS"])
	switch {
	case e.has("PMIX_RANK"):
		return fmt.Errorf("%w: this one has PMIx alone; with srun take --mpi=pmi2%s", ErrNoPMI, advice)
	case err == nil && tasks > 1 && e.has("SLURM_STEP_ID"):
		return fmt.Errorf("%w: start with srun --mpi=pmi2%s", ErrNoPMI, advice)
	}
	return nil
}
